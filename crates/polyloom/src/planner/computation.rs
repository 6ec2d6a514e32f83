//! A computation as the planner and the database know it: a graph without extents, and the extents and layouts of one workload.

use polyloom_graph::canonical::GraphIdentity;
use polyloom_graph::plan::PlanOptions;
use polyloom_graph::{
    AttributeValue, Dim, Graph, GraphError, Layout, Shape, SymbolValues, TensorDef, TensorType, prune, rescale,
    specialise, verify,
};
use polyloom_ir::FloatMode;
use polyloom_store::{ContentHash, GraphRecord, WorkloadArgument, WorkloadRecord};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The least extent that is rather a size than a count of channels or components.
const LEAST_SIZE: u64 = 17;

/// Fixed extents that are this small are not made any smaller.
const LEAST_RESCALED: u64 = 5;

/// The extents that fixed ones become in a computation that is the same for smaller arrays.
pub(super) type ExtentScale = FxHashMap<u64, u64>;

/// A graph with a workload.
#[derive(Clone, Debug)]
pub struct PlannedComputation {
    /// The graph, with symbols for extents where it is the same graph for others.
    pub graph: Graph,
    /// The numbers that the symbols stand for.
    pub symbols: SymbolValues,
    /// The graph of known extents.
    pub known: Graph,
    /// Says where the elements of the inputs lie; offsets are 0.
    pub layouts: Vec<Layout>,
    /// Both identities of the graph.
    pub identity: GraphIdentity,
    /// The options of plans, with the mode of floats.
    pub options: PlanOptions,
}

impl PlannedComputation {
    /// Takes a graph of known extents with the layouts of its inputs.
    ///
    /// # Errors
    ///
    /// [`GraphError`] if it has no canonical form.
    pub fn new(known: &Graph, layouts: &[Layout], options: PlanOptions) -> Result<PlannedComputation, GraphError> {
        let known = with_plain_names(&prune(known)?);
        let (graph, symbols) = generalise(&known).unwrap_or_else(|| (known.clone(), SymbolValues::default()));
        let identity = graph.identity()?;
        Ok(PlannedComputation { graph, symbols, known, layouts: layouts.to_vec(), identity, options })
    }

    /// Takes a graph with symbols, which have these numbers, and dense inputs.
    ///
    /// # Errors
    ///
    /// [`GraphError`] if an extent stays unknown, or the graph has no canonical form.
    pub fn of_symbols(
        graph: &Graph,
        symbols: &SymbolValues,
        options: PlanOptions,
    ) -> Result<PlannedComputation, GraphError> {
        let known = specialise(graph, symbols)?;
        let layouts: Option<Vec<Layout>> =
            known.inputs().map(|(_, ty)| Some(Layout::dense(&ty.shape.as_static()?))).collect();
        let layouts = layouts.ok_or_else(|| GraphError::Evaluation("an extent of an input is not known".to_owned()))?;
        let identity = graph.identity()?;
        Ok(PlannedComputation { graph: graph.clone(), symbols: symbols.clone(), known, layouts, identity, options })
    }

    /// The hash of the identity of bits.
    pub fn hash(&self) -> ContentHash {
        ContentHash(self.identity.bits.hash.0)
    }

    /// Returns the record of the graph.
    pub fn graph_record(&self) -> GraphRecord {
        GraphRecord {
            bits: self.hash(),
            mathematics: ContentHash(self.identity.mathematics.hash.0),
            text: self.identity.bits.text.clone(),
            mathematics_text: self.identity.mathematics.text.clone(),
        }
    }

    /// Returns the record of the workload.
    pub fn workload(&self) -> WorkloadRecord {
        let arguments = self.known.inputs().zip(&self.layouts).map(|((_, ty), layout)| {
            let layout = if layout.is_dense() { "c".to_owned() } else { format!("strides {:?}", layout.strides) };
            let shape = ty.shape.as_static().unwrap_or_default();
            WorkloadArgument { dtype: ty.dtype.python_name().to_owned(), shape, layout }
        });
        WorkloadRecord { graph: self.hash(), arguments: arguments.collect() }
    }

    /// Returns the types of the outputs.
    pub fn output_types(&self) -> Vec<TensorType> {
        self.known.outputs.iter().filter_map(|&output| Some(self.known.value(output)?.ty.clone())).collect()
    }

    /// The number of numbers that each run is given.
    pub fn n_numbers(&self) -> usize {
        let index = |value: &polyloom_graph::TensorValue| match value.def {
            TensorDef::Number(index) => Some(index as usize + 1),
            _ => None,
        };
        self.known.values.iter().filter_map(index).max().unwrap_or(0)
    }

    /// Returns the numbers that the symbols of a program stand for in this workload; none if the program takes other inputs.
    pub fn symbols_of(&self, program: &Graph) -> Option<SymbolValues> {
        symbols_between(program, &self.known)
    }

    /// Returns the same computation with extents so small that it can be evaluated within so many operations; none if its extents are
    /// fixed and too large. The first extent that shrinks is the largest.
    pub fn shrunk(&self, fits: &dyn Fn(&Graph) -> bool) -> Option<PlannedComputation> {
        let mut symbols = self.symbols.clone();
        loop {
            let smaller = PlannedComputation::of_symbols(&self.graph, &symbols, self.options).ok();
            if let Some(smaller) = smaller.filter(|smaller| fits(&smaller.known)) {
                return Some(smaller);
            }
            let (name, &largest) = symbols.iter().max_by_key(|(name, extent)| (**extent, (*name).clone()))?;
            if largest <= 3 {
                return None;
            }
            // An odd extent leaves remainders in tiles, lanes and vectors, as extents of programs do.
            let (name, extent) = (name.clone(), ((largest * 5 / 8) | 1).min(largest - 1));
            symbols.insert(name, extent);
        }
    }

    /// Returns a computation with smaller extents in the place of fixed ones, so small that it can be evaluated, with what each has become:
    /// the same program for smaller arrays ([`rescale`]). None if there is no such program.
    pub(super) fn rescaled(&self, fits: &dyn Fn(&Graph) -> bool) -> Option<(PlannedComputation, ExtentScale)> {
        // Odd extents leave remainders, as extents of programs do; halves keep what divides them.
        let shorter: [fn(u64) -> u64; 2] = [|extent| ((extent * 5 / 8) | 1).min(extent - 1), |extent| extent / 2];
        shorter.into_iter().find_map(|shorter| self.rescaled_by(fits, shorter))
    }

    fn rescaled_by(
        &self,
        fits: &dyn Fn(&Graph) -> bool,
        shorter: fn(u64) -> u64,
    ) -> Option<(PlannedComputation, ExtentScale)> {
        let extents = self.known.inputs().filter_map(|(_, ty)| ty.shape.as_static()).flatten();
        let mut scale: ExtentScale =
            extents.filter(|&extent| extent >= LEAST_SIZE).map(|extent| (extent, extent)).collect();
        loop {
            let (_, largest) = scale.iter_mut().max_by_key(|(extent, now)| (**now, **extent))?;
            if *largest < LEAST_RESCALED {
                return None;
            }
            *largest = shorter(*largest);
            if let Some(graph) = rescale(&self.known, &scale).filter(|graph| fits(graph)) {
                let layouts = graph.inputs().map(|(_, ty)| Some(Layout::dense(&ty.shape.as_static()?)));
                let layouts: Vec<Layout> = layouts.collect::<Option<_>>()?;
                let identity = graph.identity().ok()?;
                let (known, symbols, options) = (graph.clone(), SymbolValues::default(), self.options);
                return Some((PlannedComputation { graph, symbols, known, layouts, identity, options }, scale));
            }
        }
    }

    /// Returns true if results have the bits that the graph defines, by the mode of floats.
    pub fn is_strict(&self) -> bool {
        self.options.float_mode == FloatMode::Strict
    }
}

/// Matches the extents of inputs.
pub(super) fn symbols_between(program: &Graph, known: &Graph) -> Option<SymbolValues> {
    let mut symbols = SymbolValues::default();
    let (own, other): (Vec<_>, Vec<_>) = (program.inputs().collect(), known.inputs().collect());
    if own.len() != other.len() {
        return None;
    }
    for ((_, own), (_, other)) in own.iter().zip(&other) {
        if own.dtype != other.dtype || own.shape.rank() != other.shape.rank() {
            return None;
        }
        for (own, other) in own.shape.0.iter().zip(&other.shape.0) {
            let extent = other.as_static()?;
            match own {
                Dim::Static(own) if *own != extent => return None,
                Dim::Static(_) => {}
                Dim::Symbol(name) => {
                    if *symbols.entry(name.clone()).or_insert(extent) != extent {
                        return None;
                    }
                }
            }
        }
    }
    Some(symbols)
}

/// Names inputs by their place, because names are of no account.
fn with_plain_names(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    let mut n_inputs = 0;
    for value in &mut graph.values {
        if let TensorDef::Input(name) = &mut value.def {
            *name = format!("x{n_inputs}").into();
            n_inputs += 1;
        }
    }
    graph
}

/// Puts symbols in the place of extents, one for each number that an input has, named in the order in which they appear. None if that is
/// another graph: an attribute depends on a number, or a shape has no form with symbols.
fn generalise(known: &Graph) -> Option<(Graph, SymbolValues)> {
    // Extents of a few elements are rather a count of channels or components than a size.
    [2, LEAST_SIZE].into_iter().find_map(|least| generalise_from(known, least))
}

fn generalise_from(known: &Graph, least: u64) -> Option<(Graph, SymbolValues)> {
    let mut names: FxHashMap<u64, Arc<str>> = FxHashMap::default();
    for (_, ty) in known.inputs() {
        for extent in ty.shape.as_static()? {
            if extent >= least {
                let n = names.len();
                names.entry(extent).or_insert_with(|| format!("s{n}").into());
            }
        }
    }
    let symbolic = |shape: &mut Shape| {
        for dim in &mut shape.0 {
            if let Dim::Static(extent) = dim
                && let Some(name) = names.get(extent)
            {
                *dim = Dim::Symbol(name.clone());
            }
        }
    };
    let mut graph = known.clone();
    for value in &mut graph.values {
        symbolic(&mut value.ty.shape);
        if let TensorDef::Op { attributes, .. } = &mut value.def {
            for attribute in &mut attributes.0 {
                if let AttributeValue::Shape(shape) = attribute {
                    symbolic(shape);
                }
            }
        }
    }
    let symbols: SymbolValues = names.into_iter().map(|(extent, name)| (name, extent)).collect();
    if symbols.is_empty() || verify(&graph).is_err() || graph.identity().is_err() {
        return None;
    }
    (specialise(&graph, &symbols).ok()? == *known).then_some((graph, symbols))
}

#[cfg(test)]
mod tests {
    use super::PlannedComputation;
    use polyloom_graph::{Layout, parse_graph};

    fn computation(n: u64) -> PlannedComputation {
        let text = format!("%x = input \"x\" : f32[{n}, 24]\n%y = softmax %x\n%z = add %y, 1.0\nreturn %z");
        PlannedComputation::new(&parse_graph(&text).unwrap(), &[Layout::dense(&[n, 24])], Default::default()).unwrap()
    }

    #[test]
    fn the_graph_is_the_same_for_other_extents() {
        let (a, b) = (computation(100), computation(200));
        assert_eq!(a.hash(), b.hash());
        assert_eq!(a.graph, b.graph);
        assert_ne!(a.workload().hash(), b.workload().hash());
        assert_eq!(b.symbols_of(&a.graph), Some(b.symbols.clone()));
    }

    #[test]
    fn extents_shrink_until_they_fit() {
        let fits = |graph: &polyloom_graph::Graph| graph.inputs().all(|(_, ty)| ty.shape.n_elements() < Some(300));
        let small = computation(1000).shrunk(&fits).unwrap();
        let extents = small.known.inputs().next().unwrap().1.shape.as_static().unwrap();
        assert!(extents[0] % 2 == 1 && extents.iter().product::<u64>() < 300, "{extents:?}");
    }
}
