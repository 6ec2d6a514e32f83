//! Links the static library, which lies in the folder that `AOT_LIBRARY` names.

fn main() {
    let folder = std::env::var("AOT_LIBRARY").expect("AOT_LIBRARY is the folder of the library: run `make aot`");
    println!("cargo:rerun-if-env-changed=AOT_LIBRARY");
    println!("cargo:rerun-if-changed={folder}/libpricing.a");
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-lib=static=pricing");
    println!("cargo:rustc-link-lib=m");
    println!("cargo:rustc-env=AOT_LIBRARY={folder}");
}
