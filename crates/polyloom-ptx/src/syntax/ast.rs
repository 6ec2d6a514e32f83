//! The syntax tree of a PTX module.

use crate::error::TextPosition;

/// A whole text.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PtxAst {
    /// `.version`, as (major, minor).
    pub version: (u32, u32),
    /// `.target`: the architecture first, then options.
    pub target: Vec<String>,
    /// `.address_size`.
    pub address_size: u32,
    /// Everything else, in order.
    pub items: Vec<ModuleItem>,
}

/// A part of a module.
#[derive(Clone, PartialEq, Debug)]
pub enum ModuleItem {
    /// A variable of module scope.
    Variable(PtxVariable),
    /// A kernel or function, declared or defined.
    Function(PtxFunction),
    /// `.file INDEX "NAME"`.
    File(u32, String),
    /// `.section NAME { … }`: debug data, kept as its tokens.
    Section(String, Vec<String>),
    /// `.alias NAME, TARGET;`
    Alias(String, String),
    /// `.pragma "…", "…";`
    Pragma(Vec<String>),
}

/// Who sees a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "PTX's own words")]
pub enum SymbolLinkage {
    Extern,
    Visible,
    Weak,
    Common,
}

impl SymbolLinkage {
    pub(crate) const ALL: [(SymbolLinkage, &'static str); 4] = [
        (SymbolLinkage::Extern, "extern"),
        (SymbolLinkage::Visible, "visible"),
        (SymbolLinkage::Weak, "weak"),
        (SymbolLinkage::Common, "common"),
    ];
}

/// Says where a variable lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "PTX's own words")]
pub enum StateSpace {
    Reg,
    Const,
    Global,
    Local,
    Param,
    Shared,
}

impl StateSpace {
    pub(crate) const ALL: [(StateSpace, &'static str); 6] = [
        (StateSpace::Reg, "reg"),
        (StateSpace::Const, "const"),
        (StateSpace::Global, "global"),
        (StateSpace::Local, "local"),
        (StateSpace::Param, "param"),
        (StateSpace::Shared, "shared"),
    ];

    pub(crate) fn name(self) -> &'static str {
        StateSpace::ALL.iter().find(|(space, _)| *space == self).map_or("", |(_, name)| name)
    }
}

/// A variable, parameter, or family of registers.
#[derive(Clone, PartialEq, Debug)]
pub struct PtxVariable {
    /// The place where its name stands.
    pub position: TextPosition,
    /// Who sees it.
    pub linkage: Option<SymbolLinkage>,
    /// The place where it lies.
    pub space: StateSpace,
    /// `.align N`.
    pub align: Option<u32>,
    /// 1, or 2, 4 or 8 for `.v2`, `.v4`, `.v8`.
    pub lanes: u32,
    /// The fundamental type's name, without the dot.
    pub ty: String,
    /// `.ptr` of a kernel's parameter.
    pub pointer: Option<PointerAttribute>,
    /// Its name, or what the numbers follow when `count` is given.
    pub name: String,
    /// `%r<N>`.
    pub count: Option<u32>,
    /// Extents of an array; `None` for `[]`.
    pub extents: Vec<Option<u64>>,
    /// The initial value.
    pub initial: Option<InitialValue>,
}

/// `.ptr .SPACE .align N`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PointerAttribute {
    /// The space's name; generic if none.
    pub space: Option<StateSpace>,
    /// The promised alignment.
    pub align: Option<u32>,
}

/// The initial value of a variable.
#[derive(Clone, PartialEq, Debug)]
pub enum InitialValue {
    /// `{ … }`
    List(Vec<InitialValue>),
    /// An integer, as bits of 64.
    Integer(u64),
    /// A float, as given.
    Float(FloatLiteral),
    /// The address of a symbol plus an offset.
    Address {
        /// The symbol.
        name: String,
        /// Bytes to add.
        offset: i64,
        /// `generic(name)`.
        generic: bool,
    },
    /// `filter_mode = nearest`, of a sampler.
    Field {
        /// Holds what is set.
        name: String,
        /// To what.
        value: Box<InitialValue>,
    },
    /// `0xff00(name)`: the bits of an address under a mask, moved to the right.
    Masked {
        /// The mask.
        mask: u64,
        /// The address.
        address: Box<InitialValue>,
    },
}

/// A floating-point literal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FloatLiteral {
    /// `0f…`, the bits of an f32.
    Single(u32),
    /// `0d…` or a decimal, the bits of an f64.
    Double(u64),
}

/// A kernel (`.entry`) or function (`.func`).
#[derive(Clone, PartialEq, Debug)]
pub struct PtxFunction {
    /// The place where its name stands.
    pub position: TextPosition,
    /// Who sees it.
    pub linkage: Option<SymbolLinkage>,
    /// `.entry` rather than `.func`.
    pub entry: bool,
    /// Holds what a `.func` returns.
    pub results: Vec<PtxVariable>,
    /// Its name.
    pub name: String,
    /// Holds what it takes.
    pub parameters: Vec<PtxVariable>,
    /// `.maxntid 256` and the like, in order, without the dot.
    pub directives: Vec<(String, Vec<u64>)>,
    /// Absent in a declaration.
    pub body: Option<Vec<Statement>>,
}

/// A statement of a body.
#[derive(Clone, PartialEq, Debug)]
pub enum Statement {
    /// `name:`
    Label(String, TextPosition),
    /// `.reg …;` and other declarations.
    Variable(PtxVariable),
    /// An instruction.
    Instruction(PtxInstruction),
    /// `{ … }`
    Block(Vec<Statement>),
    /// `.loc FILE LINE COLUMN …`
    Location(LocDirective),
    /// `.pragma "…", "…";`
    Pragma(Vec<String>),
    /// `name: .calltargets a, b;` or `.branchtargets`.
    Targets {
        /// The label.
        name: String,
        /// `.calltargets` rather than `.branchtargets`.
        calls: bool,
        /// Holds what may be jumped to.
        targets: Vec<String>,
    },
    /// `name: .callprototype (results) _ (parameters);`
    Prototype {
        /// The label.
        name: String,
        /// Holds what is returned.
        results: Vec<PtxVariable>,
        /// Holds what is taken.
        parameters: Vec<PtxVariable>,
        /// `.noreturn` and such.
        directives: Vec<(String, Vec<u64>)>,
    },
}

/// A place in the user's source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocDirective {
    /// The index of a `.file`.
    pub file: u32,
    /// The line there.
    pub line: u32,
    /// The column there.
    pub column: u32,
    /// `function_name LABEL[+N]`.
    pub function_name: Option<(String, i64)>,
    /// `inlined_at FILE LINE COLUMN`.
    pub inlined_at: Option<(u32, u32, u32)>,
}

/// `@p opcode.modifier… operand, …;`
#[derive(Clone, PartialEq, Debug)]
pub struct PtxInstruction {
    /// The place where the opcode stands.
    pub position: TextPosition,
    /// The predicate, and whether it is negated.
    pub guard: Option<(bool, String)>,
    /// The opcode without modifiers.
    pub opcode: String,
    /// Its modifiers without dots.
    pub modifiers: Vec<String>,
    /// The operands, destination first.
    pub operands: Vec<PtxOperand>,
}

/// An operand.
#[derive(Clone, PartialEq, Debug)]
pub enum PtxOperand {
    /// A register, variable, label, function or `_`.
    Name(String),
    /// `%tid.x`: a name and a component.
    Component(String, String),
    /// An integer, as bits of 64.
    Integer(u64),
    /// A float.
    Float(FloatLiteral),
    /// `name+4` outside brackets.
    Offset(String, i64),
    /// `a[3]`, `a[%r1]` or `a[%r1+3]`: the address of an element.
    Element {
        /// The array.
        array: String,
        /// A register to count elements with.
        index: Option<String>,
        /// Elements to add.
        offset: i64,
    },
    /// `{a, b}`
    Vector(Vec<PtxOperand>),
    /// `(a, b)` of a call.
    List(Vec<PtxOperand>),
    /// `a|b`
    Pair(Box<PtxOperand>, Box<PtxOperand>),
    /// `!p`
    Not(Box<PtxOperand>),
    /// `-a`
    Negative(Box<PtxOperand>),
    /// `[base+offset]`, and `[base+offset, …]` of tensor instructions.
    Address {
        /// A register, variable or integer.
        base: Box<PtxOperand>,
        /// Bytes to add.
        offset: i64,
        /// Holds what follows commas.
        more: Vec<PtxOperand>,
    },
}
