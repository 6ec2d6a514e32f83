//! Kernels over structs.

use super::elementwise::begin;
use super::expr::GeneratedExpr;
use super::generator::{KernelGenerator, name_of};
use super::program::{Category, DatasetProgram, InputValues, ProgramExtent, ProgramInput};
use super::roles;
use crate::catalogue::OperandNeed;
use crate::number_range::NumberRange;
use polyloom::{Composite, Random, Type};

const NAMES: [(&str, &[&str]); 10] = [
    ("Particle", &["particles", "p", "body", "point"]),
    ("Body", &["bodies", "body", "b", "planet"]),
    ("Material", &["materials", "mat", "stuff", "layer"]),
    ("Sensor", &["sensors", "sensor", "probe", "device"]),
    ("Cell", &["cells", "cell", "tissue", "box"]),
    ("Ray", &["rays", "ray", "beam", "photon"]),
    ("Spring", &["springs", "spring", "link", "joint"]),
    ("Sample", &["samples", "sample", "item", "entry"]),
    ("Agent", &["agents", "agent", "walker", "unit"]),
    ("Node", &["nodes", "node", "vertex", "site"]),
];

const NUMBERS: [&str; 16] = [
    "mass",
    "radius",
    "charge",
    "age",
    "weight",
    "energy",
    "density",
    "phase",
    "power",
    "depth",
    "temperature",
    "speed",
    "height",
    "rate",
    "stiffness",
    "cost",
];
const VECTORS: [&str; 8] = ["position", "velocity", "force", "normal", "color", "direction", "heading", "axis"];
const COUNTS: [&str; 6] = ["kind", "count", "level", "rank", "group", "state"];

/// A struct of the program.
#[derive(Clone)]
struct GeneratedStruct {
    name: String,
    fields: Vec<GeneratedField>,
}

#[derive(Clone)]
struct GeneratedField {
    name: String,
    /// `None` of a field that is a struct.
    ty: Option<Type>,
    inner: Option<Box<GeneratedStruct>>,
    range: NumberRange,
}

/// A field that is no struct, or one of a field's: its path.
#[derive(Clone)]
struct GeneratedLeaf {
    path: String,
    ty: Type,
    range: NumberRange,
}

impl GeneratedStruct {
    fn leaves(&self) -> Vec<GeneratedLeaf> {
        let mut all = Vec::new();
        for field in &self.fields {
            match (&field.inner, field.ty) {
                (Some(inner), _) => all.extend(
                    inner
                        .leaves()
                        .into_iter()
                        .map(|leaf| GeneratedLeaf { path: format!("{}.{}", field.name, leaf.path), ..leaf }),
                ),
                (None, Some(ty)) => all.push(GeneratedLeaf { path: field.name.clone(), ty, range: field.range }),
                (None, None) => {}
            }
        }
        all
    }
}

/// A kernel over structs.
pub(super) fn draft(random: Random, difficulty: u8) -> Option<DatasetProgram> {
    let mut g = begin(random, Category::Struct);
    let inner = (difficulty > 1 && g.random.one_in(2)).then(|| g.structure(None));
    let main = g.structure(inner);
    let (_, names) = NAMES.iter().find(|(name, _)| *name == main.name)?;
    let index = g.random.pick(&["i", "tid", "idx"]);
    g.threads_over(&[ProgramExtent::Free(0)], &[index]);
    let whole_name = g.like(&names[..1]);
    let in_place = g.random.one_in(3);
    g.struct_param(&whole_name, &main, &[ProgramExtent::Free(0)]);
    let index = g.indices[0].clone();
    let leaves = main.leaves();
    // The element under a name, or its fields one by one.
    let named = g.random.below(3) > 0;
    let base = match named {
        true => {
            let name = g.like(&names[1..]);
            g.line(&format!("{name} = {whole_name}[{index}]"));
            g.explain(format!("`{name}` is the thread's element of `{whole_name}`."));
            name
        }
        false => format!("{whole_name}[{index}]"),
    };
    let mut fields = g.fields(&base, &leaves);
    if g.random.one_in(3) {
        let shared = g.structure(None);
        let name = g.like(&["params", "config", "settings", "model", "world"]);
        g.struct_param(&name, &shared, &[]);
        let shared_leaves = shared.leaves();
        fields.extend(g.fields(&name, &shared_leaves));
    }
    fields.extend(g.extras(difficulty));
    let mut results = Vec::new();
    if named && g.random.one_in(2) {
        results.push(g.method(&main, &base, difficulty));
    }
    fields.extend(&results);
    let goal = g.goal(difficulty);
    g.work_until(&mut fields, goal - 1, 1 + usize::from(difficulty > 2));
    g.gap();
    if in_place {
        g.update(&whole_name, &base, &leaves, named, difficulty)?;
    } else if g.random.one_in(4) {
        g.new_struct(&main, &leaves, &base)?;
    } else {
        g.outputs(1 + usize::from(difficulty > 1));
    }
    g.finish(Category::Struct)
}

impl KernelGenerator {
    /// A struct with a name of its own, defined before the kernel.
    fn structure(&mut self, inner: Option<GeneratedStruct>) -> GeneratedStruct {
        let first = self.random.below(NAMES.len());
        let name = (0..NAMES.len())
            .map(|at| NAMES[(first + at) % NAMES.len()].0)
            .find(|name| self.names.take(name))
            .unwrap_or("Record")
            .to_owned();
        let n = 2 + self.random.below(3);
        let mut fields: Vec<GeneratedField> = Vec::new();
        let elem = match self.real {
            Type::Scalar(scalar) => scalar,
            _ => polyloom::Scalar::F32,
        };
        for at in 0..n {
            let (list, ty, range): (&[&str], Type, NumberRange) = match self.random.below(6) {
                0 if at > 0 => (&COUNTS, Type::I32, NumberRange::new(0.0, 9.0)),
                1 | 2 => {
                    let len = self.random.pick(&[2, 3, 3, 3, 4]);
                    (&VECTORS, Composite::Vector { elem, len }.into(), NumberRange::within(2.0))
                }
                _ => (&NUMBERS, self.real, NumberRange::new(0.1, 3.0)),
            };
            let start = self.random.below(list.len());
            let fresh = (0..list.len())
                .map(|step| list[(start + step) % list.len()])
                .find(|name| fields.iter().all(|field| field.name != *name));
            let Some(fresh) = fresh else { continue };
            fields.push(GeneratedField { name: fresh.to_owned(), ty: Some(ty), inner: None, range });
        }
        if let Some(inner) = inner {
            let name = inner.name.to_lowercase();
            fields.push(GeneratedField { name, ty: None, inner: Some(Box::new(inner)), range: NumberRange::ANY });
        }
        let lines: Vec<String> = fields
            .iter()
            .map(|field| {
                let ty = match (&field.inner, field.ty) {
                    (Some(inner), _) => inner.name.clone(),
                    (None, Some(ty)) => self.type_name(ty),
                    (None, None) => String::new(),
                };
                format!("    {}: {ty}\n", field.name)
            })
            .collect();
        let decorator = self.builtin("struct");
        self.item_text(format!("@{decorator}\nclass {name}:\n{}", lines.concat()));
        for leaf in fields.iter().filter_map(|field| field.ty) {
            if let Some(composite) = leaf.as_composite()
                && !self.composites.contains(&composite)
            {
                self.composites.push(composite);
            }
        }
        GeneratedStruct { name, fields }
    }

    fn struct_param(&mut self, name: &str, of: &GeneratedStruct, shape: &[ProgramExtent]) {
        let inputs = of
            .leaves()
            .into_iter()
            .map(|leaf| ProgramInput {
                name: format!("{name}.{}", leaf.path),
                dtype: name_of(leaf.ty),
                shape: shape.to_vec(),
                values: InputValues::Between { low: leaf.range.low, high: leaf.range.high },
            })
            .collect();
        let annotation = self.annotation(&of.name, shape.len());
        self.param_of(name, &annotation, inputs);
    }

    /// The fields of a struct as variables.
    fn fields(&mut self, base: &str, leaves: &[GeneratedLeaf]) -> Vec<usize> {
        leaves
            .iter()
            .map(|leaf| {
                let text = format!("{base}.{}", leaf.path);
                self.declare(text.clone(), format!("`{text}`"), leaf.ty, leaf.range)
            })
            .collect()
    }

    /// A function of the struct, and a variable with what it gives.
    fn method(&mut self, of: &GeneratedStruct, base: &str, difficulty: u8) -> usize {
        let names = ["measure", "evaluate", "assess", "rate_item", "appraise", "score"];
        let name = self.like(&names);
        let param = of.name.to_lowercase();
        let param = if self.names.take(&param) { param } else { "it".to_owned() };
        let real = self.real;
        let with_more = self.random.one_in(2);
        let more = self.like(&roles::PLAIN);
        let mut heads = vec![(param.clone(), of.name.clone())];
        if with_more {
            heads.push((more.clone(), self.type_name(real)));
        }
        let arrow = if self.random.one_in(2) { self.type_name(real) } else { String::new() };
        let mut range = NumberRange::ANY;
        let leaves = of.leaves();
        let told = self.item(&name, &heads, |g| {
            let fields = g.fields(&param, &leaves);
            for &field in &fields {
                g.variables[field].is_free = true;
            }
            if with_more {
                g.declare(more.clone(), format!("`{more}`"), real, NumberRange::within(4.0));
            }
            let n = g.random.below(1 + usize::from(difficulty));
            g.statements(n, 1);
            let value = g.variable(real, 2);
            g.review();
            let is_read = |field: &usize| g.variables[*field].used || value.uses.contains(field);
            if !fields.iter().any(is_read) {
                // The function must depend on what it is of.
                let field = g.random.pick(&fields);
                g.variables[field].is_free = false;
            }
            let value = g.with_unused(value);
            let value = g.constrain(value, OperandNeed::Finite);
            range = value.range;
            g.line(&format!("return {}", value.text));
            g.say(value.words);
            arrow
        });
        self.names.take(&name);
        let params: Vec<&str> = heads.iter().map(|(name, _)| name.as_str()).collect();
        self.explain(told.sentence(&format!("{name}({})", params.join(", "))));
        let mut call = format!("{name}({base})");
        if with_more {
            let arg = self.variable(real, 1);
            let arg = self.constrain(arg, OperandNeed::Unit);
            let arg = self.short(arg);
            call = format!("{name}({base}, {})", arg.text);
        }
        let index = self.let_like(&["amount", "own", "measured", "value", "score_here"], &call, real, range);
        let result = self.text(index);
        self.explain(format!("Let `{result}` be `{call}`."));
        index
    }

    /// New values of some fields of the element itself.
    fn update(&mut self, whole: &str, base: &str, leaves: &[GeneratedLeaf], named: bool, difficulty: u8) -> Option<()> {
        let index = self.indices[0].clone();
        let known = self.types();
        let n = 1 + self.random.below(2);
        let fits: Vec<&GeneratedLeaf> = leaves.iter().filter(|leaf| known.contains(&leaf.ty)).collect();
        let first = self.random.below(fits.len().max(1));
        let chosen: Vec<GeneratedLeaf> =
            (0..n.min(fits.len())).map(|at| fits[(first + at) % fits.len()].clone()).collect();
        // New values come first, because the fields may be read by each other's.
        let (mut lines, mut told) = (Vec::new(), Vec::new());
        for (at, leaf) in chosen.iter().enumerate() {
            let value = self.variable(leaf.ty, 1 + usize::from(difficulty > 1));
            let value = if at + 1 == chosen.len() { self.with_unused(value) } else { value };
            let value = self.constrain(value, OperandNeed::Finite);
            let value = self.short(value);
            let target = match named {
                true => format!("{base}.{}", leaf.path),
                false => format!("{whole}[{index}].{}", leaf.path),
            };
            // A field that stays is no update.
            if value.text == target {
                return None;
            }
            told.push(format!("`{whole}.{}` becomes {}.", leaf.path, value.words));
            lines.push((target, value));
        }
        // A value that reads a field which has changed is another than the docstring says.
        if lines.len() > 1 && lines[1].1.text.contains(&lines[0].0) {
            return None;
        }
        // The use of the old values is told before.
        told.into_iter().for_each(|sentence| self.say(sentence));
        for (target, value) in &lines {
            let self_update = format!("{target} + ");
            match value.text.strip_prefix(&self_update) {
                Some(rest) if named && !rest.contains([' ', '(']) => self.line(&format!("{target} += {rest}")),
                _ => self.line(&format!("{target} = {}", value.text)),
            }
        }
        if named {
            self.line(&format!("{whole}[{index}] = {base}"));
        }
        (!lines.is_empty()).then_some(())
    }

    /// A new struct for each element, in an array of its own.
    fn new_struct(&mut self, of: &GeneratedStruct, leaves: &[GeneratedLeaf], base: &str) -> Option<()> {
        if of.fields.iter().any(|field| field.inner.is_some()) {
            return None;
        }
        let known = self.types();
        let out = self.like(&["moved", "updated", "results", "next_state"]);
        let inputs = leaves
            .iter()
            .map(|leaf| ProgramInput {
                name: format!("{out}.{}", leaf.path),
                dtype: name_of(leaf.ty),
                shape: vec![ProgramExtent::Free(0)],
                values: InputValues::Zeros,
            })
            .collect();
        let annotation = self.annotation(&of.name, 1);
        self.param_of(&out, &annotation, inputs);
        let fresh = self.like(&["fresh", "new", "made"]);
        self.line(&format!("{fresh} = {}()", of.name));
        let n = leaves.iter().rposition(|leaf| known.contains(&leaf.ty))? + 1;
        for (at, leaf) in leaves.iter().enumerate() {
            let value: GeneratedExpr = if known.contains(&leaf.ty) && (at + 1 == n || self.random.one_in(2)) {
                let value = self.computed(leaf.ty, 1);
                let value = if at + 1 == n { self.with_unused(value) } else { value };
                let value = self.constrain(value, OperandNeed::Finite);
                self.short(value)
            } else {
                let text = format!("{base}.{}", leaf.path);
                GeneratedExpr::atom(text, leaf.ty, leaf.range)
            };
            self.line(&format!("{fresh}.{} = {}", leaf.path, value.text));
            self.say(format!("`{out}.{}` is {}.", leaf.path, value.words));
        }
        let index = self.indices[0].clone();
        self.line(&format!("{out}[{index}] = {fresh}"));
        Some(())
    }
}
