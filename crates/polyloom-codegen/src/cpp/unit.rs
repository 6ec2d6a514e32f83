//! One text: what it consists of and in which order it is written.

use super::body::FunctionWriter;
use super::library::{Defined, LibraryKey, LibraryText, TextNeeds};
use super::names::{ScopeNames, identifier};
use super::plan::draws;
use super::prelude::{Helper, HelperText, TypeSet};
use super::target::TextTarget;
use super::{CppOptions, TextSemantics, types};
use crate::abi::SiteTable;
use crate::backend::CodegenError;
use polyloom_ir::block_plan::{BlockPlan, TextPhrase};
use polyloom_ir::op::{Lowering, OpGroup};
use polyloom_ir::{
    CallEffects, Composite, FloatMode, FuncId, Function, FunctionKind, Imm, Inst, Module, Op, Scalar, Span, Type,
};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The functions that instructions name.
#[derive(Clone, Copy)]
pub(super) struct InstCallees<'a> {
    pub module: &'a Module,
    /// The op of the definition of a library op.
    pub defined: Option<&'a Defined>,
}

impl InstCallees<'_> {
    /// Returns true if they are definitions of library ops.
    fn is_library(self) -> bool {
        self.defined.is_some()
    }
}

/// Describes how the definition of an op is called.
#[derive(Clone, Debug)]
pub(super) enum DefinitionCallee {
    /// By an operator.
    Operator(&'static str),
    /// By its name.
    Function(String),
    /// By its name, with `float` for 16-bit floats.
    Widened(String),
}

/// Describes how a function is declared.
#[derive(Clone, Copy)]
struct FunctionName<'a> {
    name: &'a str,
    result: &'a str,
    /// True if its first parameter is a random state that it changes.
    changes_state: bool,
}

/// A function, or a type that one needs.
struct FunctionText {
    text: String,
    /// True if it defines an op.
    is_library: bool,
}

/// A function whose text is written, or is about to be.
#[derive(PartialEq, Eq, Hash)]
enum WrittenFunction {
    User(FuncId),
    Library(String),
}

/// A table of constants.
struct ConstantTable {
    /// Its name in the namespace `constants`.
    name: String,
    /// Holds what the source calls it.
    source_name: Option<String>,
    elem: Scalar,
    bits: Vec<u64>,
}

type Helpers = BTreeMap<Helper, TypeSet>;

/// A text being written.
pub(super) struct TextUnit<'u> {
    target: TextTarget,
    options: &'u CppOptions<'u>,
    semantics: &'u dyn TextSemantics,
    /// Says how the kernel was split, if its threads are blocks.
    pub(super) blocks: Option<&'u BlockPlan>,
    /// The helpers that functions and tables use, and the types that they are used with.
    helpers: Helpers,
    scalars: FxHashSet<Scalar>,
    composites: Vec<Composite>,
    tables: Vec<ConstantTable>,
    needs_printf: bool,
    /// True if the kernel's threads work together, so that none is run after another.
    pub(super) in_blocks: bool,
    compares_with_limits: bool,
    /// Texts of functions, each after those it calls.
    functions: Vec<FunctionText>,
    /// Names of functions of the user's and of the library's.
    user: FxHashMap<FuncId, String>,
    library: FxHashMap<String, String>,
    written: FxHashSet<WrittenFunction>,
    definitions: FxHashMap<Defined, Option<DefinitionCallee>>,
    names: ScopeNames,
    /// Those of the kernel and the user's functions.
    own_names: Vec<String>,
    /// Holds what a function of the library asks for that is written by itself; `None` if it cannot be, and in other
    /// texts.
    asked: Option<Vec<TextNeeds>>,
    error: Option<CodegenError>,
}

impl<'u> TextUnit<'u> {
    pub(super) fn new(
        target: TextTarget,
        blocks: Option<&'u BlockPlan>,
        options: &'u CppOptions<'u>,
        semantics: &'u dyn TextSemantics,
    ) -> TextUnit<'u> {
        let mut names = ScopeNames::default();
        if target == TextTarget::Cpp {
            // Parameters of the kernel.
            ["begin", "end"].iter().for_each(|name| names.reserve(name));
        }
        TextUnit {
            target,
            options,
            semantics,
            blocks,
            helpers: Helpers::new(),
            scalars: [Scalar::U64].into_iter().collect(),
            composites: Vec::new(),
            tables: Vec::new(),
            needs_printf: false,
            in_blocks: false,
            compares_with_limits: false,
            functions: Vec::new(),
            user: FxHashMap::default(),
            library: FxHashMap::default(),
            written: FxHashSet::default(),
            definitions: FxHashMap::default(),
            names,
            own_names: Vec::new(),
            asked: None,
            error: None,
        }
    }

    pub(super) fn target(&self) -> TextTarget {
        self.target
    }

    /// Notes that there is no text for something.
    pub(super) fn refuse(&mut self, message: String, span: Span) {
        self.asked = None;
        self.error.get_or_insert(CodegenError::at(span, message));
    }

    /// Notes what the function that is being written asks for.
    fn ask(&mut self, what: impl FnOnce() -> TextNeeds) {
        if let Some(asked) = &mut self.asked {
            let what = what();
            if !asked.contains(&what) {
                asked.push(what);
            }
        }
    }

    /// Sees to what a function asks for.
    fn answer(&mut self, callees: InstCallees<'_>, asked: &TextNeeds) {
        match asked {
            TextNeeds::Helper(helper) => self.need(*helper),
            TextNeeds::HelperFor(helper, ty) => self.need_for(*helper, *ty),
            TextNeeds::Scalar(ty) => self.need_scalar(*ty),
            TextNeeds::Type(ty) => drop(self.type_name(*ty)),
            TextNeeds::Definition(op, types, results) => drop(self.definition(*op, types, results)),
            TextNeeds::Function(id) => drop(self.function(callees, *id)),
            TextNeeds::ComparesWithLimits => self.compares_with_limits(),
        }
    }

    pub(super) fn need(&mut self, helper: Helper) {
        self.ask(|| TextNeeds::Helper(helper));
        self.helpers.entry(helper).or_default();
    }

    /// Notes that a helper is used with a type.
    pub(super) fn need_for(&mut self, helper: Helper, ty: Scalar) {
        self.ask(|| TextNeeds::HelperFor(helper, ty));
        self.helpers.entry(helper).or_default().add(TypeSet::of(ty));
    }

    pub(super) fn need_scalar(&mut self, ty: Scalar) {
        self.ask(|| TextNeeds::Scalar(ty));
        if self.scalars.insert(ty) && ty.is_half() {
            self.need_for(Helper::Half, ty);
        }
    }

    /// The text of a helper.
    fn helper_text(&self, helper: Helper) -> HelperText {
        match helper {
            // Loops are at any scope, CUDA's own functions at the device's.
            Helper::AtomicAdd | Helper::AtomicSub if self.helpers.contains_key(&Helper::AtomicScopes) => {
                helper.text(TextTarget::Cpp)
            }
            helper => helper.text(self.target),
        }
    }

    /// The helpers with all that they rely on in turn, for the same types.
    fn all_helpers(&self) -> Helpers {
        let mut all = Helpers::new();
        let mut rest: Vec<(Helper, TypeSet)> = self.helpers.iter().map(|(&helper, &types)| (helper, types)).collect();
        while let Some((helper, types)) = rest.pop() {
            let known = all.get(&helper).copied();
            let mut union = known.unwrap_or_default();
            union.add(types);
            if known == Some(union) {
                continue;
            }
            all.insert(helper, union);
            rest.extend(helper.needs().iter().map(|&needed| (needed, types)));
            if let HelperText::ByType(parts) = self.helper_text(helper) {
                let used = parts.iter().filter(|part| part.is_for(types));
                rest.extend(used.flat_map(|part| part.needs).map(|&needed| (needed, types)));
            }
        }
        all
    }

    /// The name, in the namespace `constants`, of the table of these constants, which the source may have a name for.
    pub(super) fn table(&mut self, source_name: Option<&str>, elem: Scalar, bits: Vec<u64>) -> String {
        // The name of a table depends on the tables before it.
        self.asked = None;
        let is_same = |table: &&ConstantTable| {
            (table.elem, &table.bits) == (elem, &bits)
                && (source_name.is_none() || table.source_name.as_deref() == source_name)
        };
        if let Some(known) = self.tables.iter().find(is_same) {
            return known.name.clone();
        }
        self.need_scalar(elem);
        for &bits in &bits {
            let text = types::constant(elem, bits);
            if text.contains("inf<") {
                self.need(Helper::Infinity);
            } else if text.contains("nan<") {
                self.need(Helper::NotANumber);
            }
        }
        // A value captured as `module.name` has the last part as its name.
        let wanted = source_name.map_or("table", |name| name.rsplit('.').next().unwrap_or(name));
        let is_taken = |name: &str| self.tables.iter().any(|table| table.name == name);
        let name = ScopeNames::default().local_unless(wanted, is_taken);
        let source_name = source_name.map(str::to_owned);
        self.tables.push(ConstantTable { name: name.clone(), source_name, elem, bits });
        name
    }

    /// The tables of constants.
    fn table_texts(&self) -> String {
        if self.tables.is_empty() {
            return String::new();
        }
        let qualifier = match self.target {
            TextTarget::Cpp => "static const",
            TextTarget::Cuda => "__constant__",
        };
        let mut text = "\nnamespace constants {\n".to_owned();
        for ConstantTable { name, elem, bits, .. } in &self.tables {
            let _ = write!(text, "{qualifier} {} {name}[{}] = {{", types::scalar(*elem), bits.len());
            for (index, &bits) in bits.iter().enumerate() {
                text.push_str(if index % 8 == 0 { "\n    " } else { " " });
                text.push_str(&types::constant(*elem, bits));
                text.push(',');
            }
            text.push_str("\n};\n");
        }
        text.push_str("}  // namespace constants\n");
        text
    }

    pub(super) fn need_printf(&mut self) {
        self.asked = None;
        self.needs_printf = true;
    }

    /// Notes a comparison that may always come out alike, of which compilers warn.
    pub(super) fn compares_with_limits(&mut self) {
        self.ask(|| TextNeeds::ComparesWithLimits);
        self.compares_with_limits = true;
    }

    /// The name of a type that the text uses.
    pub(super) fn type_name(&mut self, ty: Type) -> String {
        self.ask(|| TextNeeds::Type(ty));
        let (composite, scalar) = match ty {
            Type::Scalar(scalar) => (None, scalar),
            Type::Array { elem, .. } => {
                self.need(Helper::Array);
                if elem == Scalar::Bool {
                    self.need(Helper::Bool8);
                }
                (None, elem)
            }
            Type::Composite(composite) => (Some(composite), composite.elem()),
            Type::CompositeArray { elem, .. } => {
                self.need(match elem {
                    Composite::Vector { .. } => Helper::VecArray,
                    Composite::Matrix { .. } => Helper::MatArray,
                    Composite::Quaternion { .. } => Helper::QuatArray,
                    Composite::Transform { .. } => Helper::TransformArray,
                });
                (Some(elem), elem.elem())
            }
        };
        self.need_scalar(scalar);
        if let Some(composite) = composite
            && !self.composites.contains(&composite)
        {
            self.need(match composite {
                Composite::Vector { .. } => Helper::Vec,
                Composite::Matrix { .. } => Helper::Mat,
                Composite::Quaternion { .. } => Helper::Quat,
                Composite::Transform { .. } => Helper::Transform,
            });
            self.composites.push(composite);
        }
        types::name(ty)
    }

    pub(super) fn negative_indices(&self, func: &Function) -> FxHashSet<(Inst, u8)> {
        if self.blocks.is_some() && func.kind == FunctionKind::Kernel {
            // None is left, because they were wrapped before the kernel was split.
            return FxHashSet::default();
        }
        self.semantics.negative_indices(func).into_iter().collect()
    }

    /// The numbers of a kernel's sites.
    pub(super) fn sites(&self, func: &Function) -> FxHashMap<Inst, u32> {
        let mut sites = FxHashMap::default();
        if func.kind == FunctionKind::Kernel {
            let table = SiteTable::of(func);
            func.walk(func.body, &mut |inst, data| {
                if let (Op::Check | Op::Assert, Some(number)) = (data.op, table.number(inst)) {
                    sites.insert(inst, number);
                }
            });
        }
        sites
    }

    /// The line of the source that a span starts in, if the text is to show it.
    pub(super) fn source_line(&self, span: Span) -> Option<(u32, String)> {
        let file = self.options.sources?.get(span.file)?;
        let line = file.position(span.start).line;
        let mut text = file.text.lines().nth((line - file.first_line) as usize)?.trim();
        // Otherwise a backslash at the end of a comment's line, or what was once another spelling of one, would make
        // the line below part of the comment.
        while let Some(before) = text.strip_suffix('\\').or_else(|| text.strip_suffix("??/")) {
            text = before.trim_end();
        }
        Some((line, text.to_owned()))
    }

    // ---- functions -------------------------------------------------------------------------------------------------

    /// Keeps variables of a function from being called like what it calls.
    pub(super) fn reserve_callees(&mut self, func: &Function, callees: InstCallees<'_>, names: &mut ScopeNames) {
        func.walk(func.body, &mut |_, data| match data.imm {
            Imm::Func(callee) if data.op == Op::Call => {
                if self.phrase(callees, callee).is_none() {
                    let name = self.function_name(callees, callee);
                    names.reserve(&name);
                }
            }
            _ => {
                let info = data.op.info();
                let calls_helper = match info.group {
                    OpGroup::Math => true,
                    OpGroup::Atomic | OpGroup::Gpu => Helper::NAMES.contains(&info.name),
                    _ => false,
                };
                if info.lowering != Lowering::Native || calls_helper {
                    names.reserve(info.name);
                    let types: SmallVec<[Type; 4]> = data.operands.iter().map(|&v| func.ty(v)).collect();
                    if let Some(name) = self.definition_name(data.op, &types) {
                        names.reserve(&name);
                    }
                }
            }
        });
    }

    /// Returns what a function means that is no function of the text.
    pub(super) fn phrase(&self, callees: InstCallees<'_>, id: FuncId) -> Option<TextPhrase> {
        let phrases = self.blocks.filter(|_| !callees.is_library()).map_or(&[][..], |plan| &plan.phrases);
        phrases.iter().find(|(known, _)| *known == id).map(|&(_, phrase)| phrase)
    }

    /// The name of a function that may be called.
    fn function_name(&mut self, callees: InstCallees<'_>, id: FuncId) -> String {
        let func = &callees.module.functions[id];
        let known = match callees.is_library() {
            true => self.library.get(&*func.name),
            false => self.user.get(&id),
        };
        if let Some(name) = known {
            return name.clone();
        }
        match callees.is_library() {
            true => {
                let base = func.name.split('.').next().unwrap_or(&func.name);
                // On components, beside the function of composites that has the op's name.
                let is_flat =
                    Op::from_name(base).is_some_and(|op| op.info().signatures.iter().any(|s| s.has_composites()));
                let wanted = identifier(if is_flat { &func.name } else { base });
                let is_taken = |name: &str| self.own_names.iter().any(|own| own == name);
                let name = if is_taken(&wanted) { self.names.local_unless(&wanted, is_taken) } else { wanted };
                self.library.insert(func.name.to_string(), name.clone());
                name
            }
            false => {
                let mut name = self.names.local(&func.name);
                while Op::from_name(&name).is_some() || self.library.values().any(|library| *library == name) {
                    name = self.names.local(&func.name);
                }
                self.user.insert(id, name.clone());
                self.own_names.push(name.clone());
                name
            }
        }
    }

    /// The name of a called function, whose text is written before that of its caller.
    pub(super) fn function(&mut self, callees: InstCallees<'_>, id: FuncId) -> String {
        self.ask(|| TextNeeds::Function(id));
        let name = self.function_name(callees, id);
        let key = match callees.is_library() {
            true => WrittenFunction::Library(callees.module.functions[id].name.to_string()),
            false => WrittenFunction::User(id),
        };
        if self.written.insert(key) {
            self.write_function(callees, id, &name);
        }
        name
    }

    fn write_function(&mut self, callees: InstCallees<'_>, id: FuncId, name: &str) {
        let func = &callees.module.functions[id];
        let base = func.name.split('.').next().and_then(Op::from_name);
        let changes_state = callees.is_library() && func.results.len() == 2 && base.is_some_and(draws);
        let result = match func.results[..] {
            [] => "void".to_owned(),
            [ty, _] if changes_state => self.type_name(ty),
            [ty] => self.type_name(ty),
            _ => {
                let result = self.names.local(&format!("{}_results", name.trim_start_matches("operator")));
                if !callees.is_library() {
                    self.own_names.push(result.clone());
                }
                let mut text = format!("struct {result} {{\n");
                for (index, &ty) in func.results.iter().enumerate() {
                    let _ = writeln!(text, "    {} r{index};", self.type_name(ty));
                }
                text.push_str("};\n\n");
                self.functions.push(FunctionText { text, is_library: callees.is_library() });
                result
            }
        };
        let written = FunctionName { name, result: &result, changes_state };
        let text = match callees.defined {
            Some(defined) if self.options.sources.is_none() => self.library_text(callees, defined, id, written),
            _ => self.function_text(callees, id, written),
        };
        self.functions.push(FunctionText { text, is_library: callees.is_library() });
    }

    /// The text of a function, written here.
    fn function_text(&mut self, callees: InstCallees<'_>, id: FuncId, written: FunctionName<'_>) -> String {
        let func = &callees.module.functions[id];
        let calls = CallEffects::of(callees.module, id);
        let is_strict = callees.is_library() || func.metadata.float_mode == FloatMode::Strict;
        let names = self.names.clone();
        let body = FunctionWriter::new(self, callees, func, &calls, is_strict, names);
        body.device_function(written.name, written.result, written.changes_state)
    }

    /// The text of a function of the definition of an op: the one that is known, unless names of this text stand in it.
    fn library_text(
        &mut self,
        callees: InstCallees<'_>,
        defined: &Defined,
        id: FuncId,
        written: FunctionName<'_>,
    ) -> String {
        let (name, result) = (written.name.to_owned(), written.result.to_owned());
        let key = LibraryKey { target: self.target, defined: defined.clone(), id, name, result };
        let known = self.semantics.library_texts().get_or(key, || {
            const PLAIN: &CppOptions<'_> = &CppOptions { sources: None, without_prelude: false };
            let mut apart =
                TextUnit { asked: Some(Vec::new()), ..TextUnit::new(self.target, None, PLAIN, self.semantics) };
            let text = apart.function_text(callees, id, written);
            apart.asked.map(|asked| LibraryText::new(text, asked))
        });
        match known.filter(|known| !self.own_names.iter().any(|name| known.has(name))) {
            Some(known) => {
                known.asked.iter().for_each(|asked| self.answer(callees, asked));
                known.text.clone()
            }
            None => self.function_text(callees, id, written),
        }
    }

    /// Returns how the op for operands of these types is called, which writes its definition.
    pub(super) fn definition(&mut self, op: Op, types: &[Type], results: &[Type]) -> Option<DefinitionCallee> {
        self.ask(|| TextNeeds::Definition(op, types.into(), results.into()));
        let is_composite = types.iter().chain(results).any(|ty| ty.as_composite().is_some());
        let key = (op, if is_composite { SmallVec::from_slice(types) } else { widened(types) });
        if let Some(known) = self.definitions.get(&key) {
            return known.clone();
        }
        let callee = self.semantics.definition(op, &key.1).map(|module| {
            let callees = InstCallees { module: &module, defined: Some(&key) };
            let root = FuncId::from_u32(0);
            match operator(op, key.1.len()).filter(|_| is_composite) {
                Some(sign) => {
                    self.write_function(callees, root, &format!("operator{sign}"));
                    DefinitionCallee::Operator(sign)
                }
                None if is_composite => {
                    let name = op.name().to_owned();
                    self.write_function(callees, root, &name);
                    DefinitionCallee::Function(name)
                }
                None => DefinitionCallee::Widened(self.function(callees, root)),
            }
        });
        self.definitions.insert(key, callee.clone());
        callee
    }

    /// The name by which the text calls the definition of an op for scalar operands of these types; nothing is written.
    /// On composites it is the op's own.
    fn definition_name(&mut self, op: Op, types: &[Type]) -> Option<String> {
        if types.iter().any(|ty| ty.as_composite().is_some()) {
            return None;
        }
        let key = (op, widened(types));
        let module = self.semantics.definition(op, &key.1)?;
        let callees = InstCallees { module: &module, defined: Some(&key) };
        Some(self.function_name(callees, FuncId::from_u32(0)))
    }

    // ---- the whole -------------------------------------------------------------------------------------------------

    /// Writes a kernel with all it needs.
    pub(super) fn write(mut self, module: &Module, kernel: FuncId) -> Result<String, CodegenError> {
        let func = module
            .functions
            .get(kernel)
            .filter(|func| func.kind == FunctionKind::Kernel)
            .ok_or_else(|| CodegenError::new("the module has no such kernel"))?;
        let callees = InstCallees { module, defined: None };
        let calls = CallEffects::of(module, kernel);
        let is_strict = func.metadata.float_mode == FloatMode::Strict;
        let needs_blocks = module.reachable(kernel).iter().any(|&id| module.functions[id].needs_blocks());
        self.in_blocks = needs_blocks && self.blocks.is_none();
        let name = super::kernel_name(func, self.target);
        self.names.reserve(&name);
        self.own_names.push(name.clone());
        let names = self.names.clone();
        let body = FunctionWriter::new(&mut self, callees, func, &calls, is_strict, names);
        let kernel = body.kernel(&name);
        if let Some(error) = self.error {
            return Err(error);
        }
        let with_prelude = !self.options.without_prelude;
        let mut text = if with_prelude { self.header(func, is_strict) } else { String::new() };
        text.push_str(&self.table_texts());
        for function in self.functions.iter().filter(|function| with_prelude || !function.is_library) {
            text.push('\n');
            text.push_str(function.text.trim_end());
            text.push('\n');
        }
        text.push('\n');
        text.push_str(&kernel);
        if with_prelude {
            text.push_str("\n}  // namespace polyloom\n");
            return Ok(text);
        }
        Ok(text.trim_start().to_owned())
    }

    /// Returns the directives for compilers: how to round, and what not to warn of.
    fn put_pragmas(&self, text: &mut String, is_strict: bool) {
        match self.target {
            TextTarget::Cpp => text.push_str(
                "//\n// Products and sums are rounded one by one: compile with -ffp-contract=off.\n\n\
                 #if defined(__clang__)\n#pragma STDC FP_CONTRACT OFF\n#elif defined(__GNUC__)\n\
                 #pragma GCC optimize(\"fp-contract=off\")\n#endif\n",
            ),
            TextTarget::Cuda if is_strict => text.push_str(
                // Only NVRTC is stopped, because nvcc does not say how it was called.
                "//\n// Results are the same bits as on the CPU, with --fmad=true too, but not with --use_fast_math, --ftz=true,\n\
                 // --prec-div=false or --prec-sqrt=false.\n\n\
                 #if defined(__CUDACC_RTC__) && (__CUDA_FTZ || __USE_FAST_MATH__ || !__CUDA_PREC_DIV || !__CUDA_PREC_SQRT)\n\
                 #error \"compile without --use_fast_math, --ftz=true, --prec-div=false and --prec-sqrt=false\"\n\
                 #endif\n",
            ),
            TextTarget::Cuda => {}
        }
        if self.compares_with_limits {
            text.push_str(match self.target {
                TextTarget::Cpp => {
                    "#if defined(__GNUC__)\n#pragma GCC diagnostic ignored \"-Wtype-limits\"\n\
                                #pragma GCC diagnostic ignored \"-Wtautological-compare\"\n#endif\n"
                }
                TextTarget::Cuda => "#pragma nv_diag_suppress 186\n",
            });
        }
    }

    fn header(&mut self, func: &Function, is_strict: bool) -> String {
        let mut text = String::with_capacity(8192);
        let language = match self.target {
            TextTarget::Cpp => "C++17",
            TextTarget::Cuda => "CUDA C++17",
        };
        let _ = writeln!(text, "// Kernel `{}` in {language}, written by Polyloom.", func.name);
        if let (TextTarget::Cuda, Some(registers)) = (self.target, func.metadata.max_registers) {
            let _ =
                writeln!(text, "//\n// A thread is to have {registers} registers at most: --maxrregcount={registers}.");
        }
        self.put_pragmas(&mut text, is_strict);
        if self.needs_printf {
            text.push_str(match self.target {
                TextTarget::Cpp => "\n#include <cstdio>\n",
                TextTarget::Cuda => "\n#if !defined(__CUDACC_RTC__)\n#include <cstdio>\n#endif\n",
            });
        }
        text.push_str("\nnamespace polyloom {\n\n");
        // The prelude's own.
        self.scalars.insert(Scalar::I64);
        for ty in Scalar::ALL {
            if let Some(meaning) = types::fundamental(ty)
                && self.scalars.contains(&ty)
            {
                let _ = writeln!(text, "typedef {meaning} {};", types::scalar(ty));
            }
        }
        let is_scoped = self.helpers.contains_key(&Helper::AtomicScopes);
        let put = |text: &mut String, piece: &str| {
            let mut rest = piece;
            while let Some((before, marked)) = rest.split_once('$') {
                text.push_str(before);
                let (mark, after) = marked.split_at(1);
                match mark {
                    "F" => text.extend([self.target.function(), " "]),
                    "M" => text.push_str(self.target.member_function()),
                    mark => text.push_str(atomics(mark, is_scoped)),
                }
                rest = after;
            }
            text.push_str(rest);
        };
        put(&mut text, LAUNCH_BOUNDS);
        for (helper, types) in self.all_helpers() {
            match self.helper_text(helper) {
                HelperText::Whole(piece) => put(&mut text, piece),
                HelperText::ByType(parts) => {
                    parts.iter().filter(|part| part.is_for(types)).for_each(|part| put(&mut text, part.text));
                }
            }
        }
        let mut aliases = String::new();
        for &composite in &self.composites {
            let (name, template) = (types::composite(composite), types::template(composite));
            if name != template {
                let _ = writeln!(aliases, "typedef {template} {name};");
            }
        }
        if !aliases.is_empty() {
            text.push('\n');
            text.push_str(&aliases);
        }
        text
    }
}

const LAUNCH_BOUNDS: &str = r"
// The shape of a launch, 1 past its rank, and where its first failed check is reported, or 0.
struct launch_bounds {
    uint64 shape[4];
    uint64 report;

    $Muint64 size() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
    // A thread's coordinate along an axis.
    $Mint index(uint64 thread, int axis) const {
        for (int inner = 3; inner > axis; --inner) {
            thread = shape[inner] == 1 ? thread : thread / shape[inner];
        }
        return int(axis == 0 ? thread : thread % shape[axis]);
    }
};
";

/// Returns what stands for a mark in the prelude's pieces for atomic updates, of any scope or of one.
fn atomics(mark: &str, is_scoped: bool) -> &'static str {
    match (mark, is_scoped) {
        ("S", true) => "memory_scope Scope = device_scope, ",
        ("C", true) => "<Scope>",
        ("W", true) => "template <memory_scope Scope = device_scope>\n",
        ("U", true) => "Scope, ",
        ("X", true) => "scoped_swap<Scope>",
        ("X", false) => "atomicCAS",
        _ => "",
    }
}

/// The operator that composites are combined with.
fn operator(op: Op, n_operands: usize) -> Option<&'static str> {
    Some(match (op, n_operands) {
        (Op::Add, 2) => "+",
        (Op::Sub, 2) => "-",
        (Op::Mul, 2) => "*",
        (Op::Div, 2) => "/",
        (Op::Eq, 2) => "==",
        (Op::Ne, 2) => "!=",
        (Op::Neg, 1) => "-",
        _ => return None,
    })
}

/// The types for which an op on scalars is written: 16-bit floats are computed in `float` and rounded.
fn widened(types: &[Type]) -> SmallVec<[Type; 4]> {
    let widened = types.iter().map(|ty| match *ty {
        Type::Scalar(scalar) if scalar.is_half() => Type::F32,
        ty => ty,
    });
    widened.collect()
}
