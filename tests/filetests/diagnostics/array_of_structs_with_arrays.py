# test diagnostics
import polyloom as loom


@loom.struct
class Block:
    offsets: loom.array(dtype=int)
    n: int


@loom.struct
class Mesh:
    blocks: loom.array(dtype=Block)
    n: int


@loom.struct
class Outer:
    mesh: Mesh


@loom.kernel
def within(mesh: Mesh, o: loom.array(dtype=int)):
    block = mesh.blocks[0]
    o[0] = block.offsets[0] + block.n


@loom.kernel
def deeper(outer: Outer, o: loom.array(dtype=int)):
    o[0] = outer.mesh.n


@loom.kernel
def local(o: loom.array(dtype=int)):
    mesh = Mesh()
    mesh.n = 3
    o[0] = mesh.n + mesh.blocks[0].n
