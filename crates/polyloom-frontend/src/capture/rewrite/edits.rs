//! The plan of a rewritten function as data: groups, their calls, and the places in the text.

use serde::Serialize;

/// The edits that make a function run its groups.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RewritingPlan {
    /// The groups, or runs of calls of groups.
    pub groups: Vec<GroupRewriting>,
    /// The calls of groups that stay single calls, each with the reason.
    pub left: Vec<(usize, String)>,
    /// True if the function looks at its own names, as by `locals()`, and must run as it is written, without hidden ones.
    pub shows_names: bool,
    /// Says what must hold of the types of values from outside.
    pub plain: Vec<PlainRequirement>,
}

/// One group as the rewritten function calls it.
#[derive(Clone, Debug, Serialize)]
pub struct GroupRewriting {
    /// Indices of the captured calls, ascending. A member of the group is named by its place among these.
    pub calls: Vec<usize>,
    /// The moment, `first` or `last`.
    pub moment: &'static str,
    /// The calls themselves.
    pub members: Vec<GroupMember>,
    /// The external values, in the order in which they are passed.
    pub slots: Vec<GroupSlot>,
    /// The members whose results are needed outside, ascending.
    pub outputs: Vec<usize>,
    /// The expressions that change, in evaluation order.
    pub sites: Vec<GroupSite>,
}

/// A call of a group.
#[derive(Clone, Debug, Serialize)]
pub struct GroupMember {
    /// The dotted path of the op.
    pub path: String,
    /// The name of the op, of a call of NumPy.
    pub op: Option<String>,
    /// The op's parameter of each argument then, those by position before those by name.
    pub parameters: Vec<&'static str>,
    /// The positional arguments.
    pub arguments: Vec<GroupOperand>,
    /// The keyword arguments.
    pub keywords: Vec<(String, GroupOperand)>,
}

/// An argument of a call of a group.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupOperand {
    /// An external value, by its slot.
    In(usize),
    /// The result of a member.
    Call(usize),
    /// A literal, as it is written.
    Const(String),
    /// An index of literals, as it is written.
    Index(String),
    /// A list or tuple.
    List(Vec<GroupOperand>),
}

/// The way in which an external value is had when the group runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupSlot {
    /// An expression of a site evaluates it, and a hidden name keeps it.
    Kept,
    /// A local name holds it.
    Name(String),
    /// A global or a name of the closure holds it.
    Free(String),
    /// It is the member of a module with this dotted path.
    Path(String),
}

/// An expression that changes: a call of an op or of a helper.
#[derive(Clone, Debug, Serialize)]
pub struct GroupSite {
    /// The bytes of the expression.
    pub range: (u32, u32),
    /// The members that it evaluates.
    pub members: Vec<usize>,
    /// The members whose results its value is made of.
    pub results: Vec<usize>,
    /// True if its value is a tuple of the results.
    pub is_tuple: bool,
    /// The arguments that are evaluated first, in order.
    pub evaluated: Vec<EvaluatedArgument>,
    /// True if it is the call of a method of an array, which is an argument itself then.
    pub is_method: bool,
    /// True if unknown code runs between the group and the site, which may bind the names of ops anew.
    pub is_checked: bool,
    /// The slots of the external values of the members up to this site.
    pub n_slots: usize,
    /// The local names that hold results of members when it is evaluated, if the group runs later than these.
    pub holders: Vec<(String, usize)>,
}

/// An argument that a site evaluates at its own place.
#[derive(Clone, Debug, Serialize)]
pub struct EvaluatedArgument {
    /// The bytes of the expression.
    pub range: (u32, u32),
    /// The slot that it fills.
    pub slot: Option<usize>,
    /// The member whose result it is.
    pub member: Option<usize>,
    /// True if it may run code, so that the callee is looked up before it.
    pub may_run_code: bool,
}

/// The place where a value from outside is found when the function is entered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutsideRoot {
    /// A parameter.
    Parameter(String),
    /// A global or a name of the closure.
    Free(String),
}

/// The properties that the type of a value must have, so that the operations on it run no code of the program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PlainRequirement {
    /// The name that the value is found by.
    pub root: OutsideRoot,
    /// The attributes that lead from there to the value.
    pub path: Vec<String>,
    /// True if operators are applied, so that it must be a tensor, a number, a text, or a container of these.
    pub has_operators: bool,
    /// True if it must be a tensor, a number or a text, because its elements may be other objects later.
    pub is_single: bool,
    /// True if it must be exactly an array of NumPy.
    pub is_array: bool,
    /// The attributes that are loaded.
    pub loaded: Vec<String>,
    /// The attributes that are stored to.
    pub stored: Vec<String>,
}
