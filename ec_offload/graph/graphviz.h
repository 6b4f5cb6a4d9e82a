// ec_offload/graph/graphviz.h — a graph as a picture, for dot(1) of Graphviz.
//
// What:      ToGraphviz: a box for each machine with its vertices in it, a rank for each layer. A
//            vertex says its primitive, what it reads and what it keeps; an edge the factors of its
//            output.
// Shape:     the same text for the same graph, so that it can be compared.
// Threads:   pure.
// Errors:    none.
#ifndef RING_EC_OFFLOAD_GRAPH_GRAPHVIZ_H_
#define RING_EC_OFFLOAD_GRAPH_GRAPHVIZ_H_

#include <map>
#include <string>

#include "ec_offload/graph/graph.h"

namespace ring::ec_offload {

using NodeNames = std::map<NodeId, std::string>;

// Nodes that are not in names are "node 7".
std::string ToGraphviz(const Graph& graph, const NodeNames& names = {});

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_GRAPH_GRAPHVIZ_H_
