// ec_offload/graph/traffic.h — what a graph costs the network.
//
// What:      CountTraffic: messages, bytes, and steps.
// Units:     a step is the time of one message, where all are of one size: in it, every node sends
//            one and receives another. A vertex sends once all that it waits for has come; among
//            those that may go, the first edge goes first.
// Threads:   pure.
// Errors:    none.
// Cost:      edges times steps.
// Source:    the steps of PPR (EuroSys'16) and ECPipe (ATC'17).
#ifndef RING_EC_OFFLOAD_GRAPH_TRAFFIC_H_
#define RING_EC_OFFLOAD_GRAPH_TRAFFIC_H_

#include <cstddef>

#include "ec_offload/graph/graph.h"

namespace ring::ec_offload {

struct Traffic {
  std::size_t message_count = 0;
  std::size_t size = 0;
  std::size_t step_count = 0;
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

Traffic CountTraffic(const Graph& graph);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_GRAPH_TRAFFIC_H_
