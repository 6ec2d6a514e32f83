//! Static libraries: archives as System V and GNU have them, which every linker of ELF takes.
//!
//! The format is that of `ar(5)`: a signature, then members with a header of 60 bytes each. The first member has the
//! symbols and where the members lie that define them. Nothing in it says when or where it was made, so that equal
//! artifacts are equal files.

/// A member of an archive.
pub(super) struct ArchiveMember<'a> {
    /// Its name, at most 15 characters.
    pub(super) name: String,
    pub(super) bytes: &'a [u8],
    /// The symbols that it defines for others.
    pub(super) symbols: Vec<String>,
}

const SIGNATURE: &[u8] = b"!<arch>\n";
const HEADER_BYTES: usize = 60;

/// An archive of object files.
pub(super) fn archive(members: &[ArchiveMember<'_>]) -> Vec<u8> {
    let symbols: Vec<(&str, usize)> = members
        .iter()
        .enumerate()
        .flat_map(|(n, m)| m.symbols.iter().map(move |symbol| (symbol.as_str(), n)))
        .collect();
    let names_bytes: usize = symbols.iter().map(|(name, _)| name.len() + 1).sum();
    let table_bytes = 4 + 4 * symbols.len() + names_bytes;
    let mut next = SIGNATURE.len() + HEADER_BYTES + table_bytes.next_multiple_of(2);
    let offsets: Vec<u32> = members
        .iter()
        .map(|member| {
            let offset = next as u32;
            next += HEADER_BYTES + member.bytes.len().next_multiple_of(2);
            offset
        })
        .collect();
    let mut table = (symbols.len() as u32).to_be_bytes().to_vec();
    symbols.iter().for_each(|&(_, member)| table.extend_from_slice(&offsets[member].to_be_bytes()));
    for (name, _) in &symbols {
        table.extend_from_slice(name.as_bytes());
        table.push(0);
    }
    let mut archive = SIGNATURE.to_vec();
    add(&mut archive, "/", &table);
    members.iter().for_each(|member| add(&mut archive, &format!("{}/", member.name), member.bytes));
    archive
}

fn add(archive: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    // Name, time, owner, group, mode and size.
    let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, "644", bytes.len());
    debug_assert_eq!(header.len(), HEADER_BYTES);
    archive.extend_from_slice(header.as_bytes());
    archive.extend_from_slice(bytes);
    if bytes.len() % 2 == 1 {
        archive.push(b'\n');
    }
}
