"""Networks as graphs: linear maps, functions and the graph that they make up."""
