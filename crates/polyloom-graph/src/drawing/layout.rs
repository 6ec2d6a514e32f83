//! The places of boxes: layers from top to bottom, in which long edges have places too, ordered so that few edges cross, and moved
//! towards what they are connected with. This is the method of Sugiyama, Tagawa and Toda (1981); positions in a layer are a
//! least-squares fit that keeps the order (pool adjacent violators).

use std::collections::{BTreeMap, BTreeSet};

const GAP: f64 = 18.0;
const LAYER_GAP: f64 = 34.0;
const MARGIN: f64 = 8.0;
/// The sweeps that order layers, and those that move boxes. More change little.
const N_ORDER_SWEEPS: usize = 8;
const N_PLACE_SWEEPS: usize = 24;
/// The part of a passing edge in a place against that of a box, because a straight long edge is easier to follow than a straight short one.
const LANE_WEIGHT: f64 = 8.0;
/// Pictures of more boxes and passing edges keep the order of the text, because nobody waits for one.
const MAX_ORDERED_ITEMS: usize = 2000;
/// Long edges take so much room where they pass a layer.
const LANE_WIDTH: f64 = 6.0;

/// The box of a node, before it has a place.
pub(super) struct NodeBox {
    pub(super) width: f64,
    pub(super) height: f64,
    /// The nodes that it reads, which come before it.
    pub(super) operands: Vec<usize>,
    pub(super) is_input: bool,
}

/// Boxes with their places.
pub(super) struct DrawnLayers {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) boxes: Vec<NodeBox>,
    /// The upper left corner of each box.
    pub(super) corners: Vec<(f64, f64)>,
    /// The points of each edge, from an operand down to its reader.
    pub(super) edges: Vec<Vec<(f64, f64)>>,
}

/// Names what stands in a layer: a box, or an edge that passes.
struct LayerItem {
    layer: usize,
    width: f64,
    above: Vec<usize>,
    below: Vec<usize>,
    /// The middle.
    x: f64,
}

impl DrawnLayers {
    pub(super) fn of(boxes: Vec<NodeBox>) -> DrawnLayers {
        let ranks = ranks(&boxes);
        let item = |layer, width| LayerItem { layer, width, above: Vec::new(), below: Vec::new(), x: 0.0 };
        let mut items: Vec<LayerItem> = boxes.iter().zip(&ranks).map(|(node, &rank)| item(rank, node.width)).collect();
        let mut routes: Vec<Vec<usize>> = Vec::new();
        // Edges of one value pass a layer in one place, so that they are drawn as one line that branches.
        let mut lanes: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (reader, node) in boxes.iter().enumerate() {
            for &operand in &node.operands.iter().copied().collect::<BTreeSet<_>>() {
                let mut route = vec![operand];
                for layer in ranks[operand] + 1..ranks[reader] {
                    let lane = *lanes.entry((operand, layer)).or_insert_with(|| {
                        items.push(item(layer, LANE_WIDTH));
                        items.len() - 1
                    });
                    route.push(lane);
                }
                route.push(reader);
                for pair in route.windows(2) {
                    if !items[pair[0]].below.contains(&pair[1]) {
                        items[pair[0]].below.push(pair[1]);
                        items[pair[1]].above.push(pair[0]);
                    }
                }
                routes.push(route);
            }
        }
        let n_layers = ranks.iter().max().map_or(0, |rank| rank + 1);
        let mut layers: Vec<Vec<usize>> = vec![Vec::new(); n_layers];
        (0..items.len()).for_each(|index| layers[items[index].layer].push(index));
        if items.len() <= MAX_ORDERED_ITEMS {
            order(&items, &mut layers);
        }
        place(&mut items, &layers);
        DrawnLayers::finish(boxes, &items, &layers, &routes)
    }

    fn finish(boxes: Vec<NodeBox>, items: &[LayerItem], layers: &[Vec<usize>], routes: &[Vec<usize>]) -> DrawnLayers {
        let left = items.iter().map(|item| item.x - item.width / 2.0).fold(f64::INFINITY, f64::min);
        let right = items.iter().map(|item| item.x + item.width / 2.0).fold(f64::NEG_INFINITY, f64::max);
        let middle = |index: usize| items[index].x - left + MARGIN;
        let mut tops = Vec::new();
        let mut y = MARGIN;
        for layer in layers {
            let height = layer.iter().filter_map(|&index| boxes.get(index)).map(|node| node.height).fold(0.0, f64::max);
            tops.push((y, height));
            y += height + LAYER_GAP;
        }
        let corner = |index: usize| {
            let (top, height) = tops[items[index].layer];
            (middle(index) - boxes[index].width / 2.0, top + (height - boxes[index].height) / 2.0)
        };
        let edges = routes.iter().map(|route| {
            let mut points = Vec::new();
            for (step, &index) in route.iter().enumerate() {
                let (top, height) = tops[items[index].layer];
                let x = middle(index);
                match boxes.get(index) {
                    Some(node) if step == 0 => points.push((x, corner(index).1 + node.height)),
                    Some(_) => points.push((x, corner(index).1)),
                    // A passing edge goes straight through its layer.
                    None => points.extend([(x, top), (x, top + height)]),
                }
            }
            points
        });
        let edges = edges.collect();
        let corners = (0..boxes.len()).map(corner).collect();
        let width = if items.is_empty() { 0.0 } else { right - left } + 2.0 * MARGIN;
        DrawnLayers { width, height: (y - LAYER_GAP + MARGIN).max(2.0 * MARGIN), corners, edges, boxes }
    }
}

/// Returns the layer of each node: below its operands; an input just above its first reader.
fn ranks(boxes: &[NodeBox]) -> Vec<usize> {
    let mut ranks = vec![0usize; boxes.len()];
    for (index, node) in boxes.iter().enumerate() {
        ranks[index] = node.operands.iter().map(|&operand| ranks[operand] + 1).max().unwrap_or(0);
    }
    let mut first_reader = vec![usize::MAX; boxes.len()];
    for (index, node) in boxes.iter().enumerate() {
        node.operands.iter().for_each(|&operand| first_reader[operand] = first_reader[operand].min(ranks[index]));
    }
    for (index, node) in boxes.iter().enumerate() {
        if node.is_input && first_reader[index] != usize::MAX {
            ranks[index] = first_reader[index].saturating_sub(1);
        }
    }
    ranks
}

/// Orders each layer by the mean place of what its items are connected with, down and up by turns, and keeps the best order.
fn order(items: &[LayerItem], layers: &mut Vec<Vec<usize>>) {
    let mut places = vec![0.0; items.len()];
    let number = |layers: &[Vec<usize>], places: &mut [f64]| {
        for layer in layers {
            layer.iter().enumerate().for_each(|(place, &index)| places[index] = place as f64);
        }
    };
    number(layers, &mut places);
    let mut best = (n_crossings(items, layers, &places), layers.clone());
    for sweep in 0..N_ORDER_SWEEPS {
        let is_down = sweep % 2 == 0;
        let n_layers = layers.len();
        for step in 0..n_layers {
            let layer = if is_down { step } else { n_layers - 1 - step };
            let mean = |index: usize| {
                let neighbours = if is_down { &items[index].above } else { &items[index].below };
                match neighbours.len() {
                    // Without a neighbour it stays where it is.
                    0 => places[index],
                    n => neighbours.iter().map(|&neighbour| places[neighbour]).sum::<f64>() / n as f64,
                }
            };
            let mut keyed: Vec<(f64, usize)> = layers[layer].iter().map(|&index| (mean(index), index)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            layers[layer] = keyed.into_iter().map(|(_, index)| index).collect();
            layers[layer].iter().enumerate().for_each(|(place, &index)| places[index] = place as f64);
        }
        let crossings = n_crossings(items, layers, &places);
        if crossings < best.0 {
            best = (crossings, layers.clone());
        }
    }
    *layers = best.1;
}

/// Counts pairs of edges between neighbouring layers that cross.
fn n_crossings(items: &[LayerItem], layers: &[Vec<usize>], places: &[f64]) -> usize {
    let mut n = 0;
    for layer in layers {
        let mut ends: Vec<(f64, f64)> = Vec::new();
        for &index in layer {
            ends.extend(items[index].below.iter().map(|&reader| (places[index], places[reader])));
        }
        for (position, a) in ends.iter().enumerate() {
            n += ends[position + 1..].iter().filter(|b| (a.0 < b.0 && a.1 > b.1) || (a.0 > b.0 && a.1 < b.1)).count();
        }
    }
    n
}

/// Moves items as near as their order lets them to the mean of what they are connected with.
fn place(items: &mut [LayerItem], layers: &[Vec<usize>]) {
    for layer in layers {
        let mut x = 0.0;
        for &index in layer {
            items[index].x = x + items[index].width / 2.0;
            x += items[index].width + GAP;
        }
        // All layers begin with the same middle.
        layer.iter().for_each(|&index| items[index].x -= x / 2.0);
    }
    for sweep in 0..N_PLACE_SWEEPS {
        for step in 0..layers.len() {
            let layer = if sweep % 2 == 0 { &layers[step] } else { &layers[layers.len() - 1 - step] };
            let wanted: Vec<f64> = layer
                .iter()
                .map(|&index| {
                    let neighbours = items[index].above.iter().chain(&items[index].below);
                    let is_lane = |index: usize| items[index].width == LANE_WIDTH;
                    let (sum, weights) = neighbours.fold((0.0, 0.0), |(sum, weights), &other| {
                        let weight = if is_lane(index) && is_lane(other) { LANE_WEIGHT } else { 1.0 };
                        (sum + weight * items[other].x, weights + weight)
                    });
                    if weights == 0.0 { items[index].x } else { sum / weights }
                })
                .collect();
            for (&index, x) in layer.iter().zip(fit_in_order(&wanted, layer, items)) {
                items[index].x = x;
            }
        }
    }
}

/// Returns places in the given order that do not overlap and are together nearest to those that are wanted.
fn fit_in_order(wanted: &[f64], layer: &[usize], items: &[LayerItem]) -> Vec<f64> {
    // Without the room that items take, the condition is that places do not descend.
    let mut offsets = vec![0.0];
    for pair in layer.windows(2) {
        let room = (items[pair[0]].width + items[pair[1]].width) / 2.0 + GAP;
        offsets.push(offsets[offsets.len() - 1] + room);
    }
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (want, offset) in wanted.iter().zip(&offsets) {
        blocks.push((want - offset, 1));
        while let [.., (a, n), (b, m)] = blocks[..]
            && a > b
        {
            blocks.truncate(blocks.len() - 2);
            blocks.push(((a * n as f64 + b * m as f64) / (n + m) as f64, n + m));
        }
    }
    let values = blocks.into_iter().flat_map(|(value, n)| std::iter::repeat_n(value, n));
    values.zip(offsets).map(|(value, offset)| value + offset).collect()
}
