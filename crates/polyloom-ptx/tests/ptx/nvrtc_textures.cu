// Textures and surfaces by objects, as NVRTC compiles them: nvrtc -arch=compute_80.

extern "C" __global__ void textures(cudaTextureObject_t memory, cudaTextureObject_t line, cudaTextureObject_t square,
                                    cudaTextureObject_t cube, cudaTextureObject_t rows, cudaTextureObject_t layers,
                                    cudaTextureObject_t bytes, float *out) {
    out[0] = tex1Dfetch<float>(memory, 2);
    out[1] = tex1D<float>(line, 1.5f);
    out[2] = tex2D<float>(square, 0.75f, 1.0f);
    out[3] = tex3D<float>(cube, 0.75f, 1.25f, 1.0f);
    out[4] = tex1DLayered<float>(rows, 1.5f, 2);
    out[5] = tex2DLayered<float>(layers, 1.5f, 0.5f, 1);
    out[6] = tex2DLod<float>(square, 0.75f, 1.0f, 0.0f);
    out[7] = tex2DGrad<float>(square, 0.75f, 1.0f, make_float2(1.0f, 0.0f), make_float2(0.0f, 1.0f));
    float4 gathered = tex2Dgather<float4>(square, 1.0f, 1.0f, 0);
    out[8] = gathered.x;
    out[9] = gathered.y;
    out[10] = gathered.z;
    out[11] = gathered.w;
    uchar4 texel = tex2D<uchar4>(bytes, 1.0f, 0.0f);
    out[12] = texel.x;
    out[13] = texel.y;
    out[14] = texel.z;
    out[15] = texel.w;
}

// Each thread doubles an element, and those past the end do nothing.
extern "C" __global__ void surfaces(cudaSurfaceObject_t line, cudaSurfaceObject_t square, cudaSurfaceObject_t cube,
                                    cudaSurfaceObject_t rows, cudaSurfaceObject_t layers) {
    int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
    float value = surf2Dread<float>(square, 4 * x, y, cudaBoundaryModeZero);
    if (z == 0) surf2Dwrite(2 * value, square, 4 * x, y, cudaBoundaryModeZero);
    value = surf3Dread<float>(cube, 4 * x, y, z, cudaBoundaryModeZero);
    surf3Dwrite(2 * value, cube, 4 * x, y, z, cudaBoundaryModeZero);
    value = surf2DLayeredread<float>(layers, 4 * x, y, z, cudaBoundaryModeZero);
    surf2DLayeredwrite(2 * value, layers, 4 * x, y, z, cudaBoundaryModeZero);
    if (y == 0) {
        value = surf1DLayeredread<float>(rows, 4 * x, z, cudaBoundaryModeZero);
        surf1DLayeredwrite(2 * value, rows, 4 * x, z, cudaBoundaryModeZero);
    }
    if (y == 0 && z == 0 && x < 2) {
        float2 pair = surf1Dread<float2>(line, 8 * x);
        surf1Dwrite(make_float2(2 * pair.x, 2 * pair.y), line, 8 * x, cudaBoundaryModeTrap);
    }
}
