//! The variables of the text: which values share one, what it is called and where it is declared.
//!
//! Values of one source variable become one variable of the text again wherever no two of them are needed at the same
//! time; a loop's carried values are one variable with the loop's results. Where a value would be overwritten while it
//! is still needed, it gets a variable of its own. Variables in different branches or loops may have the same name.

use super::layout::TextLayout;
use super::names::ScopeNames;
use super::plan::ValuePlan;
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{PrimaryMap, SecondaryMap, entity_impl};
use polyloom_ir::{Function, FunctionKind, Imm, Inst, InstData, Op, Region, Type, Value, ValueDef};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A variable of the text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CppVariable(u32);
entity_impl!(CppVariable, "variable");

/// Describes what is known of a variable.
pub(super) struct VariableData {
    pub ty: Type,
    pub name: String,
    /// True if it is assigned once, when it is declared.
    pub is_constant: bool,
    /// The instruction before which it is declared without a value; none if its first assignment declares it.
    pub declared_before: PackedOption<Inst>,
    /// The parameters that a kernel's parameter comes in which is a composite: its components.
    pub parts: Vec<String>,
    values: SmallVec<[Value; 4]>,
    /// True if no other value may share it.
    is_pinned: bool,
}

/// The variables of a function.
pub(super) struct CppVariables {
    pub all: PrimaryMap<CppVariable, VariableData>,
    of: SecondaryMap<Value, PackedOption<CppVariable>>,
}

/// A value that an instruction hands to another: what of, and where it stands.
struct HandedValue {
    from: Value,
    to: Value,
}

/// Number of values that may share a variable, because comparing each with each takes time.
const MAX_VALUES: usize = 64;

impl CppVariables {
    pub(super) fn of(&self, value: Value) -> Option<CppVariable> {
        self.of[value].expand()
    }

    pub(super) fn new(func: &Function, layout: &TextLayout, plan: &ValuePlan, names: &mut ScopeNames) -> CppVariables {
        let mut variables = CppVariables { all: PrimaryMap::new(), of: SecondaryMap::with_capacity(func.values.len()) };
        let mut merging = MergeQuery { func, layout, uses: SecondaryMap::with_capacity(func.values.len()) };
        merging.find_uses(plan);
        let is_kernel = func.kind == FunctionKind::Kernel;
        for &param in func.params() {
            variables.add(func, param, is_kernel);
        }
        let mut handed = Vec::new();
        let mut by_name: FxHashMap<(&str, Type), Vec<CppVariable>> = FxHashMap::default();
        variables.add_region(func, plan, func.body, &mut handed);
        // The values that jumps hand on, those of the same name first.
        let same_name = |h: &HandedValue| func.value_names[h.from] == func.value_names[h.to];
        for named_alike in [true, false] {
            for h in handed.iter().filter(|h| same_name(h) == named_alike) {
                if named_alike || func.value_names[h.from].is_none() || func.value_names[h.to].is_none() {
                    variables.merge(&merging, h.from, h.to);
                }
            }
        }
        for value in func.values.keys() {
            let (Some(variable), Some(name)) = (variables.of(value), func.value_names[value].as_deref()) else {
                continue;
            };
            let alike = by_name.entry((name, func.ty(value))).or_default();
            if alike.contains(&variable) {
                continue;
            }
            let earlier = alike.iter().rev().take(4).copied().find(|&v| {
                let side_by_side = merging.are_side_by_side(&variables.all[v], &variables.all[variable]);
                !side_by_side && variables.merge_variables(&merging, v, variable)
            });
            if earlier.is_none() {
                alike.push(variable);
            }
        }
        let scopes = variables.declare(func, layout, plan);
        variables.name(func, layout, &scopes, names);
        variables
    }

    fn add(&mut self, func: &Function, value: Value, is_pinned: bool) -> CppVariable {
        let variable = self.all.push(VariableData {
            ty: func.ty(value),
            name: String::new(),
            is_constant: true,
            declared_before: None.into(),
            parts: Vec::new(),
            values: SmallVec::from_slice(&[value]),
            is_pinned,
        });
        self.of[value] = variable.into();
        variable
    }

    /// Gives every value that is no expression a variable, and finds what jumps hand on.
    fn add_region(&mut self, func: &Function, plan: &ValuePlan, region: Region, handed: &mut Vec<HandedValue>) {
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            for &result in &data.results {
                if plan.live.contains(result) && !plan.folded.contains(result) {
                    self.add(func, result, false);
                }
            }
            let is_folded = data.results.first().is_some_and(|&result| plan.folded.contains(result));
            for (number, &inner) in data.regions.iter().enumerate() {
                let params = &func.regions[inner].params;
                let mut carried = &params[..];
                if data.op == Op::ForRange {
                    self.add(func, params[0], true);
                    carried = &params[1..];
                }
                for (index, &param) in carried.iter().enumerate() {
                    // One variable is what a loop carries and what it ends with.
                    if let Some(result) = data.results.get(index)
                        && let Some(variable) = self.of(*result)
                    {
                        self.of[param] = variable.into();
                        self.all[variable].values.push(param);
                    }
                    if number == 0 && plan.live.contains(param) {
                        let inits = &data.operands[data.operands.len() - data.results.len()..];
                        handed.push(HandedValue { from: inits[index], to: param });
                    }
                }
                self.add_region(func, plan, inner, handed);
                let is_condition = data.op == Op::While && number == 0;
                if !is_folded
                    && !is_condition
                    && let Some(last) = func.terminator(inner)
                    && func.insts[last].op == Op::Yield
                {
                    self.hand(&func.insts[last], data, plan, handed);
                }
            }
            if let (Op::Break | Op::Continue, Imm::Target(target)) = (data.op, &data.imm) {
                self.hand(data, &func.insts[*target], plan, handed);
            }
        }
    }

    fn hand(&self, jump: &InstData, target: &InstData, plan: &ValuePlan, handed: &mut Vec<HandedValue>) {
        for (&from, &to) in jump.operands.iter().zip(&target.results) {
            if plan.live.contains(to) {
                handed.push(HandedValue { from, to });
            }
        }
    }

    fn merge(&mut self, merging: &MergeQuery<'_>, a: Value, b: Value) -> bool {
        match (self.of(a), self.of(b)) {
            (Some(a), Some(b)) => self.merge_variables(merging, a, b),
            _ => false,
        }
    }

    /// Makes two variables one if no two of their values are needed at the same time.
    fn merge_variables(&mut self, merging: &MergeQuery<'_>, a: CppVariable, b: CppVariable) -> bool {
        if a == b {
            return true;
        }
        let (first, second) = (&self.all[a], &self.all[b]);
        if first.ty != second.ty
            || first.is_pinned
            || second.is_pinned
            || first.values.len() + second.values.len() > MAX_VALUES
            || first.values.iter().any(|&x| second.values.iter().any(|&y| merging.interfere(x, y)))
        {
            return false;
        }
        let moved = std::mem::take(&mut self.all[b].values);
        for &value in &moved {
            self.of[value] = a.into();
        }
        self.all[a].values.extend(moved);
        true
    }

    /// Names variables as their values are named, or `t`.
    fn name(
        &mut self,
        func: &Function,
        layout: &TextLayout,
        scopes: &SecondaryMap<CppVariable, UseScope>,
        names: &mut ScopeNames,
    ) {
        for (index, name) in func.param_names.iter().enumerate() {
            let param = func.params()[index];
            if let Some(variable) = self.of(param) {
                // The shared arrays of a kernel that runs a block at a time.
                self.all[variable].name = names.local(name.strip_prefix("shared.").unwrap_or(name));
            }
        }
        let is_kernel = func.kind == FunctionKind::Kernel;
        for &param in func.params().iter().filter(|_| is_kernel) {
            if let (Some(composite), Some(variable)) = (func.ty(param).as_composite(), self.of(param)) {
                let part = |number| names.local(&format!("{}_{number}", self.all[variable].name));
                self.all[variable].parts = (0..composite.n_components()).map(part).collect();
            }
        }
        let mut used: FxHashMap<String, SmallVec<[Region; 2]>> = FxHashMap::default();
        // For each name that was wanted, where names with the numbers from 1 on are used. Of a name that many want, few
        // are then put together to be looked up.
        let mut numbered: FxHashMap<&str, Vec<SmallVec<[Region; 2]>>> = FxHashMap::default();
        // Names that are taken where one stands stay so.
        let mut next: FxHashMap<(&str, Region), usize> = FxHashMap::default();
        let unnamed = self.all.iter_mut().filter(|(_, data)| data.name.is_empty() && !data.values.is_empty());
        for (variable, data) in unnamed {
            let name = data.values.iter().find_map(|&value| func.value_names[value].as_deref());
            // A counter is there in its loop's body, anything else where it is declared.
            let scope = data.values.iter().find_map(|&value| match func.values[value].def {
                ValueDef::Param(region, 0) if data.is_pinned => Some(region),
                _ => None,
            });
            let scope = scope.or(scopes[variable].region.expand()).unwrap_or(func.body);
            let wanted = name.unwrap_or("t");
            let numbers = numbered.entry(wanted).or_default();
            let is_near = |others: &SmallVec<[Region; 2]>| {
                others.iter().any(|&other| other == scope || layout.share_scope(func, other, scope))
            };
            let is_used = |number: usize| numbers.get(number - 1).is_some_and(is_near);
            let next = next.entry((wanted, scope)).or_insert(1);
            let (name, number) = names.numbered(wanted, *next, is_used, |name| used.get(name).is_some_and(is_near));
            *next = number + 1;
            if numbers.len() < number {
                numbers.resize_with(number, SmallVec::new);
            }
            numbers[number - 1].push(scope);
            used.entry(name.clone()).or_default().push(scope);
            data.name = name;
        }
    }

    /// Decides where each variable is declared: at its first assignment if that reaches all its uses.
    fn declare(
        &mut self,
        func: &Function,
        layout: &TextLayout,
        plan: &ValuePlan,
    ) -> SecondaryMap<CppVariable, UseScope> {
        let mut scopes: SecondaryMap<CppVariable, UseScope> = SecondaryMap::with_capacity(self.all.len());
        for (variable, data) in &self.all {
            for &value in &data.values {
                match func.values[value].def {
                    ValueDef::Param(region, _) if region == func.body => scopes[variable].is_param = true,
                    // Carried values are assigned where their loop starts and where it is continued; a counter by its
                    // loop.
                    ValueDef::Param(region, index) => {
                        let Some(owner) = layout.owner(region) else { continue };
                        if func.insts[owner].op == Op::ForRange && index == 0 {
                            scopes[variable].is_param = true;
                        }
                    }
                    ValueDef::Result(inst, _) => {
                        let op = func.insts[inst].op;
                        let in_region = layout.region(inst).unwrap_or(func.body);
                        match op {
                            Op::If | Op::Block => {
                                scopes[variable].read(layout, in_region, layout.end(inst));
                            }
                            Op::ForRange | Op::While => {
                                scopes[variable].assign(layout, in_region, layout.start(inst), inst, true);
                            }
                            _ => scopes[variable].assign(layout, in_region, layout.start(inst), inst, true),
                        }
                    }
                }
            }
        }
        self.scan(func, layout, plan, func.body, &mut scopes);
        for (variable, data) in self.all.iter_mut() {
            let scope = &scopes[variable];
            data.is_constant = scope.n_assignments + u32::from(scope.is_param) == 1;
            let Some((first, region, place, declares)) = scope.first else { continue };
            if scope.is_param {
                continue;
            }
            let outer = scope.region.expand().unwrap_or(region);
            let at_first = declares && outer == region && place <= scope.first_place.unwrap_or(place);
            if !at_first {
                data.is_constant = false;
                let holder = if outer == region { Some(first) } else { layout.holder(region, outer) };
                data.declared_before = holder.into();
            }
        }
        scopes
    }

    /// Notes what is assigned and read where.
    fn scan(
        &self,
        func: &Function,
        layout: &TextLayout,
        plan: &ValuePlan,
        region: Region,
        scopes: &mut SecondaryMap<CppVariable, UseScope>,
    ) {
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            let statement = plan.statement(func, layout, inst);
            let (at, place) = (layout.region(statement).unwrap_or(region), layout.start(statement));
            for &operand in &data.operands {
                if let Some(variable) = self.of(operand) {
                    scopes[variable].read(layout, at, place);
                }
            }
            for &inner in &data.regions {
                self.scan(func, layout, plan, inner, scopes);
            }
            let target = match (data.op, &data.imm) {
                (Op::Break | Op::Continue, Imm::Target(target)) => Some(*target),
                (Op::Yield, _) => layout.owner(region),
                _ => None,
            };
            let Some(target) = target else { continue };
            let target_data = &func.insts[target];
            let is_condition = data.op == Op::Yield && target_data.op == Op::While && region == target_data.regions[0];
            if is_condition || plan.statement(func, layout, inst) != inst {
                continue;
            }
            for (&from, &to) in data.operands.iter().zip(&target_data.results) {
                if let Some(variable) = self.of(to)
                    && self.of(from) != Some(variable)
                {
                    scopes[variable].assign(layout, region, layout.start(inst), inst, false);
                }
            }
        }
    }
}

/// Says where a variable is used.
#[derive(Clone, Copy, Default)]
struct UseScope {
    /// The innermost region that holds all uses.
    region: PackedOption<Region>,
    /// The first assignment: its instruction, region and place, and whether it can declare.
    first: Option<(Inst, Region, u32, bool)>,
    /// The first place it is read or assigned at.
    first_place: Option<u32>,
    n_assignments: u32,
    is_param: bool,
}

impl UseScope {
    fn read(&mut self, layout: &TextLayout, region: Region, place: u32) {
        let common = self.region.expand().map_or(region, |known| layout.common(known, region));
        self.region = common.into();
        self.first_place = Some(self.first_place.map_or(place, |first| first.min(place)));
    }

    fn assign(&mut self, layout: &TextLayout, region: Region, place: u32, inst: Inst, declares: bool) {
        self.read(layout, region, place);
        self.n_assignments += 1;
        if self.first.is_none_or(|(.., first, _)| place < first) {
            self.first = Some((inst, region, place, declares));
        }
    }
}

/// Describes what tells whether two values are needed at the same time.
struct MergeQuery<'a> {
    func: &'a Function,
    layout: &'a TextLayout,
    /// The place where each value is read.
    uses: SecondaryMap<Value, SmallVec<[(u32, Region); 2]>>,
}

impl MergeQuery<'_> {
    fn find_uses(&mut self, plan: &ValuePlan) {
        let (func, layout) = (self.func, self.layout);
        func.walk(func.body, &mut |inst, data| {
            let statement = plan.statement(func, layout, inst);
            let Some(region) = layout.region(statement) else { return };
            for (index, &operand) in data.operands.iter().enumerate() {
                self.uses[operand].push((layout.start(statement), region));
                if data.op == Op::ForRange && index == 1 {
                    // The end of a range is looked at before each iteration.
                    self.uses[operand].push((layout.end(inst) - 1, data.regions[0]));
                }
            }
        });
    }

    /// Returns true if the values of two variables come into being in different branches or loops.
    fn are_side_by_side(&self, a: &VariableData, b: &VariableData) -> bool {
        let around = |variable: &VariableData| {
            let regions = variable.values.iter().filter_map(|&value| Some(self.layout.definition(self.func, value)?.1));
            regions.reduce(|a, b| self.layout.common(a, b))
        };
        let (Some(a), Some(b)) = (around(a), around(b)) else { return false };
        let common = self.layout.common(a, b);
        common != a && common != b
    }

    fn interfere(&self, a: Value, b: Value) -> bool {
        self.is_needed_at(a, b) || self.is_needed_at(b, a)
    }

    /// Returns true if `value` is still needed where `other` comes into being.
    fn is_needed_at(&self, value: Value, other: Value) -> bool {
        let (func, layout) = (self.func, self.layout);
        let (Some((defined, home)), Some((place, region))) =
            (layout.definition(func, value), layout.definition(func, other))
        else {
            return true;
        };
        // Parameters of one region come into being together, and so do results of one instruction.
        if defined == place && value != other {
            return true;
        }
        if defined > place || layout.exclude_each_other(func, home, region) {
            return false;
        }
        self.uses[value].iter().any(|&(used, used_in)| {
            let follows = used > place && !layout.exclude_each_other(func, used_in, region);
            follows
                || layout
                    .loops(func, region)
                    .any(|around| layout.contains(around, used) && !layout.contains(around, defined))
        })
    }
}
