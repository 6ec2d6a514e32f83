//! A row: what its text gives, and whether that is what it holds.

use crate::effect;
use crate::found::programs;
use crate::generate::{Category, DatasetProgram};
use crate::produce::{DatasetManifest, FileFormat, ProduceSettings, RowKeys, categories, drafts};
use crate::proof::{ProofLevel, RejectedProof, caught};
use crate::row::{Row, SelectedColumns, all_columns};
use crate::similarity::bands;
use crate::statistics::OpCounts;
use crate::text::{DeviceColumns, KernelTexts, RowOrigin, hashes};
use crate::tools::{ColumnTools, WARP};
use crate::verify::KernelVerifier;
use polyloom::Arch;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A row and what is wrong with it.
pub(super) struct ExaminedRow {
    pub(super) row: Row,
    pub(super) wrong: Vec<String>,
    /// Holds what its text gives that stands in other files; none if it does not compile.
    pub(super) gives: Option<(RowKeys, OpCounts)>,
    /// Says which of the kernels that its index gives it is, from 0: those before it were rejected.
    pub(super) draft: Option<usize>,
}

/// Returns what is to be said of each line, by a thread for each verifier.
pub(super) fn look_at(
    lines: &[Vec<u8>],
    manifest: &DatasetManifest,
    tools: &ColumnTools<'_>,
    verifiers: &mut [KernelVerifier],
) -> Vec<ExaminedRow> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, ExaminedRow)>> = Mutex::new(Vec::with_capacity(lines.len()));
    std::thread::scope(|scope| {
        for verifier in verifiers {
            let (next, done) = (&next, &done);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(line) = lines.get(index) else { break };
                    let looked = look(line, manifest, tools, verifier);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((index, looked));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, looked)| looked).collect()
}

fn look(line: &[u8], manifest: &DatasetManifest, tools: &ColumnTools<'_>, verifier: &KernelVerifier) -> ExaminedRow {
    let mut looked = ExaminedRow { row: Row::default(), wrong: Vec::new(), gives: None, draft: None };
    let compared = match serde_json::from_slice(line) {
        Ok(row) => {
            looked.row = row;
            let ProduceSettings { columns, format, .. } = &manifest.settings;
            let written = serde_json::to_vec(&SelectedColumns { row: &looked.row, columns });
            if *format != FileFormat::Parquet && !written.is_ok_and(|written| written == line) {
                looked.wrong.push("is not written as a run writes it".to_owned());
            }
            caught(|| Ok(compare(&mut looked, manifest, tools, verifier)))
                .unwrap_or_else(|panic| Err(panic.to_string()))
        }
        Err(error) => Err(format!("is no row: {error}")),
    };
    looked.wrong.extend(compared.err());
    looked
}

/// Compiles the row's text anew and compares all it holds.
fn compare(
    looked: &mut ExaminedRow,
    manifest: &DatasetManifest,
    tools: &ColumnTools<'_>,
    verifier: &KernelVerifier,
) -> Result<(), String> {
    let ExaminedRow { row, wrong, gives, draft } = looked;
    let row = &*row;
    let metadata = row.metadata.as_ref().ok_or("has no metadata")?;
    let device: DeviceColumns = row.device.parse()?;
    let arch: Arch = metadata.arch.parse().map_err(|error| format!("{error}"))?;
    let program = DatasetProgram {
        name: row.kernel_name.clone(),
        category: row.category.clone().into(),
        difficulty: metadata.difficulty,
        source: row.python_source.clone(),
        inputs: metadata.inputs.clone(),
        dim: metadata.launch.clone(),
    };
    let settings = &manifest.settings;
    if metadata.verified < manifest.settings.verify {
        let wanted = manifest.settings.verify;
        wrong.push(format!("is verified to `{}`, the manifest says `{wanted}`", metadata.verified));
    }
    for (what, is, wanted) in [("device", &row.device, &settings.device), ("arch", &metadata.arch, &settings.arch)] {
        if is != wanted {
            wrong.push(format!("{what} is {is}, the manifest says {wanted}"));
        }
    }
    if metadata.origin.is_some() && settings.source.is_none() {
        wrong.push("has the origin of a kernel of a file, and was generated".to_owned());
    }
    let is_timed = metadata.generation_time_ms.map_or(!settings.timings, |time| settings.timings && time >= 0.0);
    if !is_timed || metadata.cuda_available_at_generation.is_some() != settings.timings {
        wrong.push("does not say how long it took to make as the manifest has it".to_owned());
    }
    if metadata.cuda_compiler.as_deref().is_some_and(|name| {
        metadata.verified < ProofLevel::Full || !settings.nvrtc || !ColumnTools::is_cuda_compiler(name)
    }) {
        wrong.push("names a compiler of its CUDA C++ that the run did not ask".to_owned());
    }
    let text = |reject: Box<RejectedProof>| reject.to_string();
    let source = settings.source.as_ref();
    if source.is_none() {
        row.category.parse::<Category>().map_err(|error| error.to_string())?;
        let categories = categories(settings).map_err(|error| error.to_string())?;
        *draft = drafts(&categories, settings.seed, metadata.index).position(|draft| draft == program);
        if draft.is_none() {
            wrong.push(format!("is not what seed {} and index {} give", settings.seed, metadata.index));
        }
    }
    let kernel = verifier.compile(&program.name, &program.source).map_err(text)?;
    if source.is_none() && metadata.verified >= ProofLevel::Compile {
        effect::check(&program, &kernel).map_err(text)?;
    }
    if let Some(source) = source {
        let mut expected = programs(&program.name, &program.source, &source.category, &kernel);
        if !expected.any(|expected| expected == program) {
            wrong.push(
                "is not given the category, the difficulty and one of the inputs that such a kernel is".to_owned(),
            );
        }
    }
    let wants = |name: &str| manifest.settings.columns.iter().any(|column| column == name);
    let texts = KernelTexts { device, arch, columns: settings.columns.clone() };
    let code = texts.gpu_code(&kernel, metadata.verified).map_err(text)?;
    let hashes = hashes(&program.source, &kernel);
    *gives = Some((RowKeys::of(&hashes, bands(&kernel), metadata.index), OpCounts::of(&kernel)));
    // The place where a kernel was found is not known here.
    let place = RowOrigin { seed: metadata.seed, index: metadata.index, source, origin: metadata.origin.clone() };
    let row_of = texts.row(&program, &kernel, code.clone(), hashes, metadata.verified, place);
    let mut expected = row_of.map_err(text)?;
    tools.fill_nvidia(&mut expected, arch).map_err(text)?;
    // Warp is asked only if nothing is wrong so far, because it runs a row's text, which may be anybody's.
    let asks_warp = tools.has_warp() && wrong.is_empty();
    if asks_warp {
        tools.fill_warp(&mut expected, &program).map_err(text)?;
    }
    let fields = |row: &Row| match serde_json::to_value(row) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (mut have, mut want) = (fields(row), fields(&expected));
    for fields in [&mut have, &mut want] {
        // These are not compared, because facts about the machine that made the row cannot be known here.
        if let Some(serde_json::Value::Object(metadata)) = fields.get_mut("metadata") {
            for name in ["generation_time_ms", "cuda_available_at_generation", "cuda_compiler"] {
                metadata.remove(name);
            }
        }
    }
    let is_known = |name: &&str| !WARP.contains(name) || asks_warp;
    for name in all_columns().filter(|name| wants(name)).filter(is_known) {
        if have.get(name) != want.get(name) {
            wrong.push(difference(name, have.get(name), want.get(name)));
        }
    }
    for name in all_columns().filter(|name| !wants(name) && have.get(*name).is_some_and(|value| !value.is_null())) {
        wrong.push(format!("{name} is there, and the data set has no such column"));
    }
    // A text that no run made is not run, because it may ask for any memory.
    if !wrong.is_empty() {
        return Ok(());
    }
    verifier.verify(&program, &kernel, metadata.verified, || Ok(code)).map_err(text)?;
    if metadata.verified >= ProofLevel::Full {
        verifier.simulate_columns(&program, &kernel, row).map_err(text)?;
    }
    tools.prove(&kernel, row, arch).map_err(text)
}

/// Returns where a column first differs from what it should be.
fn difference(name: &str, have: Option<&serde_json::Value>, want: Option<&serde_json::Value>) -> String {
    match (have, want) {
        (Some(serde_json::Value::String(have)), Some(serde_json::Value::String(want))) => {
            let line = have.lines().zip(want.lines()).position(|(have, want)| have != want);
            let line = line.unwrap_or_else(|| have.lines().count().min(want.lines().count()));
            let of = |text: &str| text.lines().nth(line).map_or("the end of it".to_owned(), |text| format!("`{text}`"));
            format!("{name}, line {}: {}, and the text compiles to {}", line + 1, of(have), of(want))
        }
        (Some(serde_json::Value::Object(have)), Some(serde_json::Value::Object(want))) => {
            let fields = have.iter().filter(|(name, value)| want.get(*name) != Some(value));
            let fields: Vec<String> = fields.map(|(name, value)| format!("{name} is {value}")).collect();
            format!("{name}: {}, which the text does not give", fields.join(", "))
        }
        (None | Some(serde_json::Value::Null), _) => format!("{name} is missing"),
        _ => format!("{name} is there, and the text gives none"),
    }
}
