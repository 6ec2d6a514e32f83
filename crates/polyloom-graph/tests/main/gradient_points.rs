//! Gradients at points where there is none in the strict sense or a product would be 0 times infinity, and what gradients refuse.
