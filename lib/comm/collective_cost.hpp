#pragma once

#include "comm/comm.hpp"

#include <cstdint>
#include <span>

namespace gpt {

/// A connection after Hockney (1994): m bytes take latency + m·seconds_per_byte, the alpha and beta of
/// Thakur, Rabenseifner & Gropp (2005), "Optimization of collective communication operations in MPICH".
/// Additions are part of seconds_per_byte.
struct Link {
  double latency = 0.0;  ///< seconds a message
  double seconds_per_byte = 0.0;
};

/// What one rank does in a collective: messages one after the other, and bytes in all of them.
struct CostTerms {
  double messages = 0.0;
  double bytes = 0.0;

  double seconds(const Link& link) const { return messages * link.latency + bytes * link.seconds_per_byte; }
};

/// Of `bytes` over p ranks. Thakur et al. 2005: sections 4.1 and 4.3 (the halves of a ring), 4.4.
CostTerms ring_reduce_scatter(int64_t p,
                              double bytes);  ///< (p−1), (p−1)/p·bytes; an all-gather costs the same
CostTerms ring_all_reduce(int64_t p, double bytes);      ///< 2(p−1), 2(p−1)/p·bytes
CostTerms halving_all_reduce(int64_t p, double bytes);   ///< 2·lg p, 2(p−1)/p·bytes; p a power of two
CostTerms doubling_all_reduce(int64_t p, double bytes);  ///< ⌈lg p⌉, ⌈lg p⌉·bytes

/// The cheaper of doubling, ring and, on a power of two, halving: what a library chooses from.
CostTerms library_all_reduce(int64_t p, double bytes, const Link& link);

/// Nodes with equally many ranks each.
struct Cluster {
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;
  Link intra;  ///< of one rank, inside its node
  Link inter;  ///< of one node, shared by its ranks

  int64_t ranks() const { return nodes * ranks_per_node; }
};

/// The two hops of one all-reduce of f32 gradients. Hierarchical (docs/reduction.md): scatter and gather
/// inside the node; between nodes all lanes share the node's link, so that it carries the bytes of one
/// all-reduce of the whole over the nodes. Flat: one ring over all ranks, placed node by node, whose slowest
/// edge lies between nodes.
struct HopTerms {
  CostTerms intra, inter;
  int64_t blocks = 1;  ///< that go through the hops one behind the other; 1: the hops do not overlap
};
/// @throws Error(usage) where Inter::halving has no power of two of nodes
HopTerms all_reduce_terms(const Cluster& cluster, const CommPlan& plan, double bytes);

/// Seconds of one all-reduce: blocks overlap the hops, so that the longer one counts, and the other one for
/// the first block only.
double all_reduce_seconds(const Cluster& cluster, const CommPlan& plan, double bytes);

/// A measured all-reduce.
struct CostSample {
  CostTerms terms;       ///< of the hop whose link is sought
  double fixed = 0.0;    ///< seconds that do not depend on it
  double seconds = 0.0;  ///< measured, above 0
};

/// The link that explains `samples` best: least squares of the relative errors, neither constant below 0.
/// With one message size only seconds_per_byte is sought. @throws Error(usage) without samples that send
Link fit_link(std::span<const CostSample> samples);

/// The largest relative error of what `link` says of the samples.
double worst_error(std::span<const CostSample> samples, const Link& link);

}  // namespace gpt
