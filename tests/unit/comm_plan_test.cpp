#include "train/comm_plan.hpp"

#include "base/error.hpp"
#include "comm/collective_cost.hpp"
#include "comm/nccl_scratch.hpp"

#include <doctest/doctest.h>
#include <string>

namespace gpt {

TEST_CASE("every exchange is found by its name, and no other name is one") {
  for (const InterWay& way : inter_ways()) {
    CHECK(inter_named(way.name) == way.inter);
    CHECK(way_of(way.inter).name == way.name);
  }
  CHECK(inter_names().size() == inter_ways().size());
  for (const char* name : {"", "auto", "Ring", "ring ", "tree"}) CHECK_THROWS_AS(inter_named(name), Error);
  for (const char* name : {"", "auto", "mpi"}) CHECK_THROWS_AS(reduction_named(name), Error);
}

TEST_CASE("a wire is one type or two") {
  const auto text = [](const char* name) {
    const Wire wire = wire_named(name);
    return std::string(name_of(wire.node)) + "," + name_of(wire.peers);
  };
  CHECK(text("fp32") == "f32,f32");
  CHECK(text("bf16") == "bf16,bf16");
  CHECK(text("fp32,bf16") == "f32,bf16");
  CHECK(text("bf16,fp32") == "bf16,f32");
  for (const char* name : {"", ",", "fp32,", ",bf16", "f32", "bf16,bf16,bf16"})
    CHECK_THROWS_AS(wire_named(name), Error);
}

TEST_CASE("what is rounded between nodes goes straight, in small blocks and many, whatever the plan names") {
  const CommPlan library{.inter = Inter::library},
      rounded{.inter = Inter::library, .wire_peers = DType::bf16};
  CHECK(library.inter_of_sums(DType::f32) == Inter::library);
  CHECK(library.inter_of_sums(DType::bf16) == Inter::direct);
  CHECK(rounded.inter_of_sums(DType::f32) == Inter::direct);
  CHECK(rounded.inter_of_sums(DType::f64) == Inter::library);
  const CommPlan::Blocks large = library.blocks_over(Inter::library, 2);
  CHECK(large.under_way == 1);
  CHECK(large.bytes == int64_t{64} << 20);
  const CommPlan::Blocks small = rounded.blocks_over(Inter::direct, 4);
  CHECK(small.under_way == rounded.window);
  CHECK(small.bytes == 4 * (32 << 10));
  // On one node there is nobody to exchange with.
  CHECK(library.blocks_over(Inter::library, 1).under_way == library.window);
  CHECK(CommPlan{.block_bytes = 5000}.blocks_over(Inter::library, 2).bytes == 5000);
}

TEST_CASE("a sum that is rounded between nodes costs what it takes, not what the plan names") {
  const Cluster cluster{.nodes = 3, .ranks_per_node = 2, .intra = {0, 1e-9}, .inter = {0, 1e-8}};
  const CommPlan halving{.inter = Inter::halving, .wire_peers = DType::bf16};
  const HopTerms terms = all_reduce_terms(cluster, halving, 1e9);
  CHECK(terms.inter.bytes == doctest::Approx(ring_all_reduce(3, 0.5e9).bytes));
  CHECK(terms.blocks > 1);
  CHECK(all_reduce_terms(cluster, {.inter = Inter::library}, 1e9).blocks == 1);  // one by one: no overlap
}

TEST_CASE("halving wants a power of two of nodes") {
  for (const int64_t nodes : {1, 2, 8}) CHECK_NOTHROW(validate_fits(Inter::halving, nodes));
  for (const int64_t nodes : {3, 6}) CHECK_THROWS_AS(validate_fits(Inter::halving, nodes), Error);
  CHECK_NOTHROW(validate_fits(Inter::direct, 3));
}

TEST_CASE("an exchange that the nodes cannot do is refused where it would be used") {
  const auto fits = [](const char* reduction, const char* inter, int nodes) {
    TrainOptions options;
    options.reduction = reduction;
    options.inter = inter;
    try {
      validate_sums_between(options, nodes);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::usage);
      return false;
    }
    return true;
  };
  for (const char* reduction : {"auto", "hierarchical"}) {
    CHECK_FALSE(fits(reduction, "halving", 3));
    CHECK(fits(reduction, "halving", 4));
    CHECK(fits(reduction, "ring", 3));
    CHECK(fits(reduction, "auto", 3));
  }
  CHECK(fits("flat", "halving", 3));
  CHECK(fits("tree", "halving", 3));
}

TEST_CASE("blocks of sums over GPUs are whole parts of all nodes, and rounding takes memory for one block") {
  constexpr int64_t part = 1024;  // Comm::alignment
  for (const int64_t nodes : {1, 3, 7}) {
    for (const int64_t bytes : {int64_t{1}, int64_t{4096}, int64_t{1} << 22}) {
      const int64_t block = nccl_lane_block({.block_bytes = bytes}, nodes);
      CHECK(block % (nodes * part) == 0);
      CHECK(block * size_of(DType::f32) >= bytes);
      CHECK(block - nodes * part < bytes / size_of(DType::f32) + 1);
    }
    const int64_t block = nccl_lane_block({}, nodes);
    CHECK(nccl_scratch_bytes({}, 8, nodes) == 0);
    CHECK(nccl_scratch_bytes({.reduction = Reduction::flat, .wire_node = DType::bf16}, 8, nodes) == 0);
    CHECK(nccl_scratch_bytes({.wire_node = DType::bf16}, 8, nodes) == 4 * 8 * block);
    CHECK(nccl_scratch_bytes({.wire_peers = DType::bf16}, 8, nodes) == (nodes == 1 ? 0 : 4 * block));
  }
}

TEST_CASE("an exchange between nodes that no gradients take is told") {
  const auto tells = [](const char* reduction, const char* inter, const char* wire, const char* zero,
                        int nodes) {
    TrainOptions options;
    options.reduction = reduction;
    options.inter = inter;
    options.wire = wire;
    options.zero = zero;
    return idle_inter_notice(options, nodes, true).has_value();
  };
  TrainOptions on_gpus;
  on_gpus.reduction = "hierarchical";
  on_gpus.inter = "ring";
  CHECK(idle_inter_notice(on_gpus, 2, false).has_value());
  CHECK(tells("hierarchical", "ring", "fp32", "0", 1));
  CHECK(tells("flat", "ring", "fp32", "0", 2));
  CHECK(tells("tree", "ring", "fp32", "0", 2));
  CHECK(tells("hierarchical", "ring", "fp32,bf16", "0", 2));
  CHECK(tells("auto", "mpi", "bf16", "node", 2));
  CHECK_FALSE(tells("hierarchical", "ring", "bf16", "1", 2));  // parameters go round
  CHECK_FALSE(tells("hierarchical", "direct", "bf16", "0", 2));
  CHECK_FALSE(tells("hierarchical", "ring", "bf16,fp32", "0", 2));
  CHECK_FALSE(tells("auto", "ring", "fp32", "0", 2));
  for (const char* reduction : {"auto", "flat", "tree", "hierarchical"})
    for (const int nodes : {1, 2}) CHECK_FALSE(tells(reduction, "auto", "bf16", "0", nodes));
}

}  // namespace gpt
