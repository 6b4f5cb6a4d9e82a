// ec_offload/graph/lanes.h — the connections over which a graph's edges travel.
//
// What:      RunOrder, in which every node does its vertices; AssignLanes, which edges share a
//            connection, and in which order they travel on it.
// Shape:     a receive queue counts, and does not tell messages apart: so on a lane messages leave
//            in the order in which the receiver's vertices take them. Most pairs of nodes have one
//            lane each way; edges that would cross, and those that need no calculation and may
//            overtake others, have lanes of their own.
// Ownership: values.
// Threads:   pure. All nodes find the same lanes, with the same numbers.
// Errors:    none.
// Cost:      edges times the lanes of a pair, and a sort.
#ifndef RING_EC_OFFLOAD_GRAPH_LANES_H_
#define RING_EC_OFFLOAD_GRAPH_LANES_H_

#include <cstddef>
#include <vector>

#include "ec_offload/graph/graph.h"

namespace ring::ec_offload {

struct Lane {
  NodeId from = 0;
  NodeId to = 0;
  // What it carries is read from the sender's chunks, and may leave before it calculates.
  bool at_once = false;
  std::vector<std::size_t> edges;  // in the order in which they travel
};

// Vertices layer by layer: each behind all that it waits for. A node that does its own in this
// order, one after the other, never waits for a node that waits for it.
std::vector<std::size_t> RunOrder(const Graph& graph);

std::vector<Lane> AssignLanes(const Graph& graph);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_GRAPH_LANES_H_
