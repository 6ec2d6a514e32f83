//! Fat binaries, against NVIDIA's `fatbinary`.

use crate::ptxas::ptxas;
use polyloom_ir::{Arch, ArchVariant};
use polyloom_ptx::{FatBinaryWriter, FatCode, FatPart, fat_binary_size, fat_parts, is_fat_binary};
use std::process::Command;

fn arch(name: &str) -> Arch {
    name.parse().unwrap()
}

/// PTX for an architecture, whose length is one more for each line at its end.
fn text(version: &str, arch: &str, n_lines: usize) -> String {
    let head = format!(".version {version}\n.target {arch}\n.address_size 64\n");
    format!("{head}.visible .entry k() {{ ret; }}{}", "\n".repeat(n_lines))
}

#[test]
fn the_bytes_are_those_of_nvidias_tool() {
    let Some(ptxas) = ptxas() else { return };
    let fatbinary = ptxas.with_file_name("fatbinary");
    let folder = std::env::temp_dir().join(format!("polyloom-fat-parts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // The lengths of the texts have all remainders of 8, because what is added after them depends on it.
    for n_lines in 0..8 {
        let (mut writer, target) = (FatBinaryWriter::new(), folder.join("all.fatbin"));
        let mut command = Command::new(&fatbinary);
        command.arg("--create").arg(&target).args(["-64", "--compress=false"]);
        for (name, version) in [("sm_80", "7.1"), ("sm_90a", "8.0")] {
            let (ptx, cubin) = (folder.join(format!("{name}.ptx")), folder.join(format!("{name}.cubin")));
            let text = text(version, name, n_lines);
            std::fs::write(&ptx, &text).unwrap();
            let assembled =
                Command::new(&ptxas).arg(format!("--gpu-name={name}")).arg(&ptx).arg("-o").arg(&cubin).output();
            assert!(assembled.unwrap().status.success(), "{text}");
            writer.add_ptx(arch(name), &text);
            writer.add_cubin(arch(name), &std::fs::read(&cubin).unwrap());
            for (kind, path) in [("ptx", &ptx), ("elf", &cubin)] {
                command.arg(format!("--image3=kind={kind},sm={},file={}", &name[3..], path.display()));
            }
        }
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(writer.finish() == std::fs::read(&target).unwrap(), "with {n_lines} lines at the end");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn parts_are_read_as_they_were_written() {
    // NVIDIA's tool leaves comments out, which we keep.
    let old = format!("// as LLVM begins\n{}", text("7.1", "sm_80", 1));
    let new = text("8.0", "sm_90a", 2);
    let mut writer = FatBinaryWriter::new();
    writer.add_ptx(arch("sm_80"), &old);
    writer.add_ptx(arch("sm_90a"), &new);
    writer.add_cubin(arch("sm_100f"), b"\x7fELF\x02\x01\x01\x41\x08rest");
    let bytes = writer.finish();
    assert!(is_fat_binary(&bytes) && fat_binary_size(&bytes[..16]) == bytes.len());
    // The version of PTX, the minor number first.
    assert_eq!(bytes[16 + 24..16 + 28], [1, 0, 7, 0]);
    let parts = fat_parts(&bytes);
    let described: Vec<_> = parts.iter().map(|part| (part.code, part.number, part.variant)).collect();
    assert_eq!(
        described,
        [
            (Some(FatCode::Ptx), 80, ArchVariant::Portable),
            (Some(FatCode::Ptx), 90, ArchVariant::Specific),
            (Some(FatCode::Cubin), 100, ArchVariant::Family)
        ]
    );
    // A zero byte at least comes after text, up to a multiple of eight bytes.
    let zeros = vec![0; (old.len() + 1).next_multiple_of(8) - old.len()];
    assert_eq!(parts[0].bytes, [old.as_bytes(), &zeros].concat());
    assert!(parts[1].bytes.starts_with(new.as_bytes()));
    // What is cut off loses parts, and nothing else happens.
    for length in 0..bytes.len() {
        let found = fat_parts(&bytes[..length]);
        assert!(found.len() < 3 && found == parts[..found.len()], "{length}");
    }
}

#[test]
fn code_runs_where_its_architecture_allows() {
    let part = |code, name: &str| {
        let arch = arch(name);
        FatPart {
            code: Some(code),
            number: arch.number().into(),
            variant: arch.variant(),
            compression: None,
            n_plain_bytes: 0,
            bytes: &[],
        }
    };
    let runs = |code, name: &str, on: &str| part(code, name).runs_on(arch(on));
    assert!(runs(FatCode::Ptx, "sm_80", "sm_80") && runs(FatCode::Ptx, "sm_80", "sm_120"));
    assert!(!runs(FatCode::Ptx, "sm_86", "sm_80"));
    assert!(runs(FatCode::Ptx, "sm_90a", "sm_90") && !runs(FatCode::Ptx, "sm_90a", "sm_100"));
    assert!(runs(FatCode::Ptx, "sm_100f", "sm_103") && !runs(FatCode::Ptx, "sm_100f", "sm_110"));
    assert!(runs(FatCode::Cubin, "sm_80", "sm_86") && !runs(FatCode::Cubin, "sm_80", "sm_90"));
}
