//! The typed AST: a program after inference, with a type and a span on every node.
//!
//! Names are resolved to locals, literals have their final types, builtins are operations of the op table with the
//! overload chosen, and calls name function instances. It is what the lowering reads, and `--emit ast` prints.

mod print;

use crate::local_array::LocalArray;
use crate::number::PythonNumber;
use crate::structure::{StructType, ValueType};
use polyloom_ir::{
    AddressSpace, AxisExtent, ExecutionConstraints, FunctionKind, Imm, KernelMetadata, Op, Scalar, Span, Type,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// A kernel and the functions it calls, callees before callers.
#[derive(Clone, Debug, Default)]
pub struct TypedProgram {
    /// The functions; a [`FunctionId`] is an index.
    pub functions: Vec<TypedFunction>,
}

/// A function instance of a [`TypedProgram`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FunctionId(pub u32);

/// A variable of a [`TypedFunction`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LocalId(pub u32);

/// One function, for one choice of parameter types.
#[derive(Clone, Debug)]
pub struct TypedFunction {
    /// Its name, unique in the program.
    pub name: Arc<str>,
    /// Kernel or function.
    pub kind: FunctionKind,
    /// The parameters as the source has them; their leaves are the first of the locals, in order.
    pub params: Vec<TypedParam>,
    /// The variables.
    pub locals: Vec<LocalVariable>,
    /// Result types as the source has them.
    pub results: SmallVec<[ValueType; 2]>,
    /// Says which parameter each array in the results is, in the order of leaves; `None` for one that is not set.
    /// Arrays are not handed back, because the caller has them.
    pub returned_arrays: Vec<Option<LocalId>>,
    /// Parameters whose values at the end are further results: arrays of a caller's own that the function changes.
    pub updated: Locals,
    /// Holds what stands in for its derivative.
    pub custom: CustomDerivative,
    /// Holds what the result is, if it is an array of the function's own.
    pub(crate) own_result: Option<LocalArray>,
    /// The statements.
    pub body: Vec<TypedStmt>,
    /// Says how it wants to be compiled.
    pub metadata: KernelMetadata,
    /// Holds what must hold while it runs.
    pub constraints: ExecutionConstraints,
    /// The name in its `def`.
    pub span: Span,
}

/// Describes what stands in for a function's own derivative.
#[derive(Clone, Copy, Default, Debug)]
pub struct CustomDerivative {
    /// A function of its arguments and of the adjoints of its results that gives the adjoints of its arguments.
    pub gradient: Option<FunctionId>,
    /// Holds what runs in its place on the way there.
    pub replay: Option<FunctionId>,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct TypedParam {
    /// Its name.
    pub name: Arc<str>,
    /// Its type.
    pub ty: ValueType,
}

/// A variable; of one that is a struct, a leaf.
#[derive(Clone, Debug)]
pub struct LocalVariable {
    /// Its name in the source, that of a leaf with the path to it.
    pub name: Arc<str>,
    /// Its type, the same everywhere in the function.
    pub ty: Type,
    /// The place where it is first assigned.
    pub span: Span,
    /// Offsets of its first and last read in the text; `first_read > last_read` if there is none.
    pub first_read: u32,
    /// See `first_read`.
    pub last_read: u32,
}

/// Variables, in the order of their ids.
pub type Locals = SmallVec<[LocalId; 4]>;

/// Describes what an assignment writes, in order.
pub type Targets = SmallVec<[AssignTarget; 1]>;

/// A statement.
#[derive(Clone, Debug)]
pub struct TypedStmt {
    /// Holds what it does.
    pub kind: StmtKind,
    /// Its text.
    pub span: Span,
}

/// Describes what a statement does.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// Evaluates all values, then assigns their results to the targets in order.
    Assign {
        /// As many as the values have results; [`AssignTarget::Places`] takes several.
        targets: Targets,
        /// One or more.
        values: SmallVec<[TypedExpr; 1]>,
    },
    /// `a[i] op= value`: the element is read and written once, the indices are evaluated once. Atomic where there is
    /// such an operation.
    Update {
        /// The element.
        element: ElementPlace,
        /// Holds what combines the old value and `value`.
        op: UpdateOp,
        /// The right operand.
        value: TypedExpr,
    },
    /// `if`.
    If {
        /// The condition, a bool.
        cond: TypedExpr,
        /// Executed if it holds.
        then: Vec<TypedStmt>,
        /// Executed if it does not.
        otherwise: Vec<TypedStmt>,
        /// Variables assigned inside that are set on every path to the end.
        merged: Locals,
    },
    /// `for … in range(…)`.
    For {
        /// The counter.
        counter: LocalId,
        /// First value.
        start: TypedExpr,
        /// The place where it ends.
        stop: TypedExpr,
        /// Indexed by how much it moves.
        step: TypedExpr,
        /// The rest of it.
        body: LoopBody,
    },
    /// `while`.
    While {
        /// The condition, a bool.
        cond: TypedExpr,
        /// Variables the condition assigns: random states.
        cond_assigns: Locals,
        /// The rest of it.
        body: LoopBody,
    },
    /// `break`.
    Break,
    /// `continue`.
    Continue,
    /// `return`.
    Return(SmallVec<[TypedExpr; 1]>),
    /// `assert`.
    Assert {
        /// Holds what must hold, a bool.
        cond: TypedExpr,
        /// Holds what to report if it does not.
        message: Arc<str>,
    },
    /// `print` and `printf`.
    Print {
        /// A C format.
        format: Arc<str>,
        /// Holds what it formats.
        args: Vec<TypedExpr>,
    },
    /// An expression evaluated for its effect.
    Expr(TypedExpr),
}

/// The body of a loop.
#[derive(Clone, Debug)]
pub struct LoopBody {
    /// The statements.
    pub body: Vec<TypedStmt>,
    /// Executed when the loop ends without `break`.
    pub otherwise: Vec<TypedStmt>,
    /// Variables assigned in the loop that have a value before it or on every path after it.
    pub carried: Locals,
    /// Variables assigned in the loop or its `else` that are set on every path after both.
    pub merged: Locals,
    /// True if a `break` leaves it.
    pub has_break: bool,
    /// True if what follows can be reached.
    pub completes: bool,
}

/// Describes what combines old and new value in an augmented assignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpdateOp {
    /// A binary operation of the op table.
    Op(Op),
    /// `**` by a small integer.
    Power(u32),
}

/// Describes what an assignment writes.
#[derive(Clone, Debug)]
pub enum AssignTarget {
    /// A variable.
    Local(LocalId),
    /// An array element.
    Element(Box<ElementPlace>),
    /// Several places that have indices in common, one value each: an element of an array of structs, or several
    /// components of an element.
    Places(Box<ElementPlaces>),
    /// One component of a variable of a composite type.
    Component(LocalId, Box<ComponentIndex>),
}

/// Says which component of a composite.
#[derive(Clone, Debug)]
pub enum ComponentIndex {
    /// The one with this number, in row-major order.
    Is(u16),
    /// The one that integers choose, one for each axis, which count from the end if they are negative.
    At(SmallVec<[TypedExpr; 2]>),
    /// The one that an `int32` counts in row-major order, made of [`ExprKind::WrapIndex`].
    Flat(TypedExpr),
}

/// The number of a component in row-major order.
#[derive(Clone, Debug)]
pub(crate) enum ComponentOrdinal {
    Is(u16),
    Computed(TypedExpr),
}

impl From<ComponentOrdinal> for ComponentIndex {
    fn from(ordinal: ComponentOrdinal) -> ComponentIndex {
        match ordinal {
            ComponentOrdinal::Is(place) => ComponentIndex::Is(place),
            ComponentOrdinal::Computed(place) => ComponentIndex::Flat(place),
        }
    }
}

/// An array element.
#[derive(Clone, Debug)]
pub struct ElementPlace {
    /// The array.
    pub array: Box<TypedExpr>,
    /// One integer for each dimension; for a component of a composite, those of the element follow the array's.
    pub indices: SmallVec<[TypedExpr; 2]>,
    /// Its text.
    pub span: Span,
}

/// Array elements of which the first indices are the same, and evaluated once.
#[derive(Clone, Debug)]
pub struct ElementPlaces {
    /// The array and the indices after the common ones of each.
    pub each: Vec<(TypedExpr, SmallVec<[TypedExpr; 2]>)>,
    /// The indices they have in common.
    pub indices: SmallVec<[TypedExpr; 2]>,
    /// Their text.
    pub span: Span,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct TypedExpr {
    /// Holds what it computes.
    pub kind: ExprKind,
    /// The type of what it computes.
    pub ty: ExprType,
    /// Its text.
    pub span: Span,
}

/// The type of an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExprType {
    /// One value.
    Value(Type),
    /// A struct: a value for each of its leaves.
    Struct(StructType),
    /// An array of structs: an array for each leaf of its elements.
    StructArray {
        /// Its elements.
        elem: StructType,
        /// Number of dimensions.
        ndim: u8,
        /// The place where the memory of all leaves is.
        space: AddressSpace,
    },
    /// Several values, or none: what calls give.
    Values(SmallVec<[ValueType; 2]>),
    /// A Python number, or an operation on such, that has not met a type; the checker leaves none in a finished
    /// program.
    Number,
    /// Rejected. Nothing built on it gives a diagnostic, because one has been given.
    Error,
}

/// Describes what an expression computes.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A constant of the expression's type: its bits, zero-extended.
    Const(u64),
    /// A number without a type.
    Number(PythonNumber),
    /// The value of a variable.
    Local(LocalId),
    /// The part of an array that these first indices choose; the checker leaves none in a finished program.
    View {
        /// The variable that holds the array.
        array: LocalId,
        /// Fewer than it has dimensions, or slices among them.
        indices: Vec<TypedExpr>,
    },
    /// `start:stop:step` among the indices of a view, as the first index, the step and how many there are; the checker
    /// leaves none in a finished program.
    Slice(Box<[TypedExpr; 3]>),
    /// An axis of an indexed array among the indices of a view, as the array of its indices; the checker leaves none in
    /// a finished program.
    Gather(Box<TypedExpr>),
    /// An operation of the op table.
    Op {
        /// The operation.
        op: Op,
        /// Its operands.
        args: Vec<TypedExpr>,
        /// The variables its `inout` operands are, which take its last results.
        updates: Locals,
    },
    /// An operation that says more than its operands do: an axis, a scope, which shared array.
    OpWith {
        /// The operation.
        op: Op,
        /// Holds what it says.
        imm: Imm,
        /// Its operands.
        args: Vec<TypedExpr>,
    },
    /// A conversion to the expression's type.
    Cast(Box<TypedExpr>),
    /// The same bits as a value of the expression's type.
    Bitcast(Box<TypedExpr>),
    /// The thread's coordinate along an axis.
    Tid(u8),
    /// The extent of an array along an axis.
    Dim(Box<TypedExpr>, u8),
    /// An integer index, counted from the start of an axis of this extent whichever end it counts from.
    WrapIndex(Box<TypedExpr>, AxisExtent),
    /// An array element's value.
    Load(Box<ElementPlace>),
    /// One component of a composite.
    Component(Box<TypedExpr>, Box<ComponentIndex>),
    /// A constant composite from outside, with the name it is captured by.
    Named(Arc<str>, Box<TypedExpr>),
    /// A value held in a variable, or that of several leaves in as many, while another expression that uses it is
    /// evaluated.
    Let {
        /// The variables.
        locals: Locals,
        /// Holds what they hold.
        value: Box<TypedExpr>,
        /// The expression.
        body: Box<TypedExpr>,
    },
    /// A small integer power, by multiplications.
    Power(Box<TypedExpr>, u32),
    /// `a and b …` or `a or b …`: bools, evaluated until one decides.
    Logic {
        /// `and` if true, otherwise `or`.
        all: bool,
        /// Two or more bools.
        terms: Vec<TypedExpr>,
        /// Variables assigned by terms that may be skipped: random states.
        assigns: Locals,
    },
    /// `a < b < c`: bool; each operand evaluated once, until one comparison fails.
    Chain {
        /// The first operand.
        first: Box<TypedExpr>,
        /// The comparisons that follow.
        rest: Vec<ChainLink>,
        /// Variables assigned by operands that may be skipped: random states.
        assigns: Locals,
    },
    /// `a if cond else b`.
    If {
        /// The condition, a bool.
        cond: Box<TypedExpr>,
        /// Evaluated if it holds.
        then: Box<TypedExpr>,
        /// Evaluated if it does not.
        otherwise: Box<TypedExpr>,
        /// Variables assigned by either: random states.
        assigns: Locals,
    },
    /// A call of a function instance.
    Call {
        /// The instance.
        function: FunctionId,
        /// Its arguments in the order of its parameters.
        args: Vec<TypedExpr>,
        /// The variables that the function changes, which take its last results.
        updates: Locals,
    },
    /// Several values side by side.
    Tuple(Vec<TypedExpr>),
    /// Rejected.
    Error,
}

/// A comparison in a [`ExprKind::Chain`].
#[derive(Clone, Debug)]
pub struct ChainLink {
    /// The comparison.
    pub op: Op,
    /// The type the left operand is compared as: a number without a type takes another in each comparison.
    pub left: Option<TypedExpr>,
    /// Its right operand.
    pub right: TypedExpr,
}

impl ExprType {
    /// One scalar.
    pub fn scalar(scalar: Scalar) -> ExprType {
        ExprType::Value(Type::Scalar(scalar))
    }

    /// A bool.
    pub const BOOL: ExprType = ExprType::Value(Type::BOOL);

    /// The type of its one value.
    pub fn as_value(&self) -> Option<Type> {
        match self {
            ExprType::Value(ty) => Some(*ty),
            _ => None,
        }
    }

    /// The type of what it is, be it one value, a struct or an array of structs.
    pub fn full(&self) -> Option<ValueType> {
        match self {
            ExprType::Value(ty) => Some(ValueType::Plain(*ty)),
            ExprType::Struct(of) => Some(ValueType::Struct(*of)),
            ExprType::StructArray { elem, ndim, space } => {
                Some(ValueType::StructArray { elem: *elem, ndim: *ndim, space: *space })
            }
            ExprType::Values(_) | ExprType::Number | ExprType::Error => None,
        }
    }

    /// Returns true if it has leaves: a struct, or an array of structs.
    pub fn is_struct(&self) -> bool {
        matches!(self, ExprType::Struct(_) | ExprType::StructArray { .. })
    }
}

impl From<ValueType> for ExprType {
    fn from(ty: ValueType) -> ExprType {
        match ty {
            ValueType::Plain(ty) => ExprType::Value(ty),
            ValueType::Struct(of) => ExprType::Struct(of),
            ValueType::StructArray { elem, ndim, space } => ExprType::StructArray { elem, ndim, space },
        }
    }
}

/// Returns true if an overload of the op has operands of this type.
pub(crate) fn takes(op: Op, scalar: Scalar) -> bool {
    op.info().signatures.iter().any(|s| s.var.is_none_or(|class| class.contains(scalar)))
}

impl TypedExpr {
    /// An expression.
    pub fn new(kind: ExprKind, ty: ExprType, span: Span) -> TypedExpr {
        TypedExpr { kind, ty, span }
    }

    /// A constant.
    pub fn constant(bits: u64, scalar: Scalar, span: Span) -> TypedExpr {
        TypedExpr::new(ExprKind::Const(bits), ExprType::scalar(scalar), span)
    }

    /// A rejected expression.
    pub fn error(span: Span) -> TypedExpr {
        TypedExpr::new(ExprKind::Error, ExprType::Error, span)
    }

    /// Returns true if it is a view of a whole array.
    pub(crate) fn is_whole_array(&self) -> bool {
        matches!(&self.kind, ExprKind::View { indices, .. } if indices.is_empty())
    }

    /// The function instance that it calls, if it is a call.
    pub(crate) fn called(&self) -> Option<FunctionId> {
        match &self.kind {
            ExprKind::Call { function, .. } => Some(*function),
            ExprKind::Let { body, .. } => body.called(),
            _ => None,
        }
    }

    /// Returns true if it was rejected.
    pub fn is_error(&self) -> bool {
        self.ty == ExprType::Error
    }

    /// Returns true if its type is still to come: a number, or an expression of nothing but numbers.
    pub fn is_waiting(&self) -> bool {
        self.ty == ExprType::Number
    }

    /// A number that can have the types this expression can have, if its type is still to come.
    pub fn untyped(&self) -> Option<PythonNumber> {
        let wider = |a: PythonNumber, b: PythonNumber| if matches!(a, PythonNumber::Float(_)) { a } else { b };
        match &self.kind {
            _ if !self.is_waiting() => None,
            ExprKind::Number(number) => Some(*number),
            ExprKind::If { then, otherwise, .. } => Some(wider(then.untyped()?, otherwise.untyped()?)),
            ExprKind::Op { op, args, .. } => {
                let widest = args.iter().filter_map(TypedExpr::untyped).reduce(wider)?;
                let floats_only = !takes(*op, Scalar::I32);
                Some(if floats_only { wider(widest, PythonNumber::Float(0.0)) } else { widest })
            }
            _ => None,
        }
    }

    /// Returns true if all numbers of an expression whose type is still to come are values of a type.
    pub fn fits(&self, scalar: Scalar) -> bool {
        match &self.kind {
            ExprKind::Number(number) => number.fit(scalar).is_some(),
            ExprKind::If { then, otherwise, .. } => then.fits(scalar) && otherwise.fits(scalar),
            ExprKind::Op { op, args, .. } => {
                takes(*op, scalar) && args.iter().filter(|arg| arg.is_waiting()).all(|arg| arg.fits(scalar))
            }
            _ => false,
        }
    }

    /// Its number, if it has no type yet.
    pub fn number(&self) -> Option<PythonNumber> {
        match self.kind {
            ExprKind::Number(number) => Some(number),
            _ => None,
        }
    }
}
