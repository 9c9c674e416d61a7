#include "comm/every_comm.hpp"
#include "comm/tree_comm.hpp"

#include <algorithm>
#include <doctest/doctest.h>

namespace gpt {
namespace {

using test::Guarded;
using test::make_world;

float leaf_value(int64_t leaf, int64_t i) {
  return 1.0F / static_cast<float>(1 + (leaf * 7919 + i * 104729) % 10007);
}

/// Straight from the definition of the tree.
float node_sum(const TreeNode& node, int64_t total, int64_t i) {
  if (node.level == 0) return leaf_value(node.index, i);
  const float left = node_sum({.level = node.level - 1, .index = 2 * node.index}, total, i);
  const TreeNode right{.level = node.level - 1, .index = 2 * node.index + 1};
  return leaves_of(right, total).empty() ? left : left + node_sum(right, total, i);
}

struct Held {
  std::vector<Guarded<float>> arrays;
  std::vector<Tensor> tensors;

  Held(Comm& comm, const std::vector<TreeNode>& nodes, int64_t total, int64_t count) {
    // Allocation in shared memory is collective: as many arrays on every rank.
    int64_t most = std::ssize(nodes);
    MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    for (int64_t n = 0; n < most; ++n) arrays.emplace_back(comm, count);
    for (size_t n = 0; n < nodes.size(); ++n) {
      for (int64_t i = 0; i < count; ++i) arrays[n][i] = node_sum(nodes[n], total, i);
      tensors.push_back(arrays[n].tensor());
    }
  }
};

}  // namespace

TEST_CASE("whoever holds which leaves, the tree's sum has the same bits") {
  const auto device = make_cpu_device(1);
  const auto queue = device->make_queue();
  const int ranks = make_world("")->size();
  for (const std::string& layout : test::layouts_for(ranks)) {
    const auto world = make_world(layout);
    for (const int64_t leaves :
         {int64_t{8}, int64_t{16}, int64_t{13}, int64_t{ranks}, int64_t{2 * ranks + 1}}) {
      if (leaves < ranks) continue;
      std::vector<Range> leaves_of_rank;
      for (int rank = 0; rank < ranks; ++rank) leaves_of_rank.push_back(part_of(leaves, ranks, rank));
      const Range mine = leaves_of_rank[static_cast<size_t>(world->rank())];
      const auto comm = make_tree_comm(*world, {.block_bytes = 4096}, leaves_of_rank);
      INFO(comm->name(), ", layout ", layout, ", leaves ", leaves);
      for (const int64_t count : {0, 1, 1025, 20011}) {
        const auto expected = [&](int64_t i) {
          return static_cast<double>(node_sum(root_of_tree(leaves), leaves, i));
        };
        Held held(*comm, aligned_subtrees(mine, leaves), leaves, count);
        Guarded<float> out(*comm, count);
        comm->sum(out.tensor(), held.tensors, Receivers::owners, *queue);
        CHECK(out.differences(comm->owned(count), expected) == 0);
        CHECK(out.differences(comm->tail(count), expected) == 0);
        comm->sum(out.tensor(), held.tensors, Receivers::all, *queue);
        CHECK(out.differences({0, count}, expected) == 0);
        CHECK(out.intact());
        comm->sum(held.tensors.front(), held.tensors, Receivers::all, *queue);
        CHECK(held.arrays.front().differences({0, count}, expected) == 0);
      }
    }
  }
}

TEST_CASE("the tree refuses to round on the wire") {
  const auto world = make_world("");
  std::vector<Range> leaves;
  for (int rank = 0; rank < world->size(); ++rank) leaves.push_back({rank, rank + 1});
  CHECK_THROWS_AS(make_tree_comm(*world, {.wire_peers = DType::bf16}, leaves), Error);
}

}  // namespace gpt
