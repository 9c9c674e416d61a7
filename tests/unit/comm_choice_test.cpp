#include "train/comm_choice.hpp"

#include "base/error.hpp"
#include "train/comm_plan.hpp"

#include <doctest/doctest.h>
#include <functional>

namespace gpt {
namespace {

std::string names(const TrainOptions& options, int nodes, int ranks, bool heeds_inter = true) {
  std::string text;
  for (const CommCandidate& candidate : comm_candidates(options, nodes, ranks, heeds_inter))
    text += candidate.reduction + "/" + candidate.inter + " ";
  return text;
}

TrainOptions options_of(const std::string& reduction, const std::string& inter) {
  TrainOptions options;
  options.reduction = reduction;
  options.inter = inter;
  return options;
}

}  // namespace

TEST_CASE("a choice of sums is read as it was written, and nothing else is read") {
  const CommChoice choice{.situation = {{"ranks", "4"}, {"device", "an \"odd\" one"}},
                          .reduction = "hierarchical",
                          .inter = "ring"};
  CHECK(parse_comm_choice(to_text(choice)) == choice);
  const CommChoice flat{.situation = choice.situation, .reduction = "flat", .inter = ""};
  CHECK(parse_comm_choice(to_text(flat)) == flat);
  for (const char* text : {"", "{", "[]", "{}", R"({"situation":"a","reduction":"flat"})",
                           R"({"situation":{"a":"b"},"inter":"ring"})", R"({"situation":{},"reduction":1})",
                           R"({"situation":{"a":1},"reduction":"flat"})"})
    CHECK_FALSE(parse_comm_choice(text));
}

TEST_CASE("only what is left open and makes a difference is measured") {
  CHECK(names(options_of("auto", "auto"), 1, 1) == "hierarchical/ ");
  CHECK(names(options_of("auto", "auto"), 1, 4) == "hierarchical/ flat/ ");
  CHECK(names(options_of("auto", "auto"), 2, 4) == "hierarchical/ring hierarchical/mpi flat/ ");
  CHECK(names(options_of("auto", "auto"), 3, 6) == "hierarchical/ring hierarchical/mpi flat/ ");
  CHECK(names(options_of("auto", "auto"), 4, 8) ==
        "hierarchical/ring hierarchical/mpi hierarchical/halving flat/ ");
  CHECK(names(options_of("hierarchical", "auto"), 4, 8) ==
        "hierarchical/ring hierarchical/mpi hierarchical/halving ");
  CHECK(names(options_of("hierarchical", "mpi"), 4, 8) == "hierarchical/mpi ");
  CHECK(names(options_of("flat", "auto"), 4, 8) == "flat/ ");
  CHECK(names(options_of("tree", "auto"), 4, 8) == "tree/ ");
  TrainOptions rounded = options_of("auto", "ring");
  rounded.wire = "fp32,bf16";
  CHECK(names(rounded, 4, 8) == "hierarchical/direct ");
  TrainOptions sharded = options_of("auto", "ring");
  sharded.zero = "node";
  CHECK(names(sharded, 4, 8) == "hierarchical/ring ");
}

TEST_CASE("where a library chooses how nodes sum, hierarchical and flat are left, if they differ") {
  const auto of_library = [](const TrainOptions& options, int nodes, int ranks) {
    return names(options, nodes, ranks, false);
  };
  CHECK(of_library(options_of("auto", "auto"), 1, 8) == "hierarchical/ ");
  CHECK(of_library(options_of("auto", "auto"), 4, 4) == "hierarchical/ ");
  CHECK(of_library(options_of("auto", "halving"), 3, 6) == "hierarchical/ flat/ ");
  CHECK(of_library(options_of("flat", "auto"), 4, 8) == "flat/ ");
  TrainOptions rounded = options_of("auto", "auto");
  rounded.wire = "fp32,bf16";
  CHECK(of_library(rounded, 4, 8) == "hierarchical/ ");
}

TEST_CASE("what is rounded between nodes has one way, but parameters have several") {
  TrainOptions options = options_of("auto", "auto");
  for (const char* wire : {"bf16", "fp32,bf16", "bf16,bf16"}) {
    options.wire = wire;
    for (const char* zero : {"0", "node"}) {
      options.zero = zero;
      CHECK(names(options, 4, 8) == "hierarchical/direct ");
    }
    options.zero = "1";
    CHECK(names(options, 4, 8) == "hierarchical/ring hierarchical/mpi hierarchical/halving ");
  }
  options.wire = "bf16,fp32";
  CHECK(names(options, 2, 8) == "hierarchical/ring hierarchical/mpi ");
}

TEST_CASE("what is not settled is no plan") {
  CHECK_NOTHROW(comm_plan(options_of("hierarchical", "ring")));
  CHECK_THROWS_AS(comm_plan(options_of("auto", "ring")), Error);
  CHECK_THROWS_AS(comm_plan(options_of("hierarchical", "auto")), Error);
}

TEST_CASE("the fastest is preferred, but the first one unless it is clearly slower") {
  std::vector<CommCandidate> candidates = {{"hierarchical", "ring", 3.0}, {"flat", "", 2.6}};
  CHECK(preferred(candidates).reduction == "flat");
  candidates[1].seconds = 2.8;
  CHECK(preferred(candidates).reduction == "hierarchical");
  candidates.push_back({"hierarchical", "halving", 1.0});
  CHECK(preferred(candidates).inter == "halving");
  CHECK(preferred({{"tree", "", 0.0}}).reduction == "tree");
}

TEST_CASE("what has no effect is not settled, and what is left open is") {
  const TrainOptions open = options_of("auto", "auto");
  CHECK(with_sums(open, "hierarchical", "mpi").inter == "mpi");
  CHECK_NOTHROW(comm_plan(with_sums(open, "flat", "")));
  CHECK(with_sums(options_of("auto", "mpi"), "flat", "").inter == "mpi");
}

TEST_CASE("a stored choice is taken over in its own situation only") {
  const NodeOfRank layout = {0, 0, 1, 1};
  const std::string device = "CPU, 2 threads, AVX2";
  const TrainOptions options = options_of("auto", "auto");
  const CommSituation situation = comm_situation(layout, device, options);
  const std::vector<CommCandidate> candidates = comm_candidates(options, 2, 4, true);
  const CommChoice stored{.situation = situation, .reduction = "hierarchical", .inter = "mpi"};
  CHECK(still_valid(stored, situation, candidates) == stored);
  CHECK_FALSE(still_valid(std::nullopt, situation, candidates));
  CHECK_FALSE(still_valid(CommChoice{situation, "hierarchical", "halving"}, situation, candidates));
  CHECK_FALSE(still_valid(CommChoice{situation, "tree", "ring"}, situation, candidates));

  const auto invalid = [&](const CommSituation& other) { return !still_valid(stored, other, candidates); };
  CHECK(invalid(comm_situation({0, 0, 1}, device, options)));
  CHECK(invalid(comm_situation({0, 0, 0, 1}, device, options)));
  CHECK(invalid(comm_situation({0, 1, 0, 1}, device, options)));
  CHECK(invalid(comm_situation({0, 0, 1, 2}, device, options)));
  CHECK(invalid(comm_situation(layout, "CPU, 4 threads, AVX2", options)));
  const auto changed = [&](const std::function<void(TrainOptions&)>& change) {
    TrainOptions other = options;
    change(other);
    return invalid(comm_situation(layout, device, other));
  };
  CHECK(changed([](TrainOptions& other) { other.reduction = "hierarchical"; }));
  CHECK(changed([](TrainOptions& other) { other.inter = "mpi"; }));
  CHECK(changed([](TrainOptions& other) { other.wire = "fp32,bf16"; }));
  CHECK(changed([](TrainOptions& other) { other.zero = "1"; }));
  CHECK(changed([](TrainOptions& other) { other.bucket_mb = 8; }));
  CHECK(changed([](TrainOptions& other) { other.micro_batch = 3; }));
  CHECK_FALSE(changed([](TrainOptions& other) { other.lr = 1; }));
  // Gradients travel alike in either, weights do not.
  CHECK_FALSE(changed([](TrainOptions& other) { other.precision = "bf16"; }));
  TrainOptions sharded = options, sharded_bf16 = options;
  sharded.zero = sharded_bf16.zero = "1";
  sharded_bf16.precision = "bf16";
  CHECK(comm_situation(layout, device, sharded) != comm_situation(layout, device, sharded_bf16));
}

TEST_CASE("a tree adds the same way whatever the ranks, but not whatever the micro-batch or the device") {
  const TrainOptions tree = options_of("tree", "auto");
  const CommSituation situation = comm_situation({0, 0, 1, 1}, "CPU", tree);
  CHECK(comm_situation({0}, "CPU", tree) == situation);
  CHECK(comm_situation({0, 0, 1, 1}, "another CPU", tree) != situation);
  TrainOptions other = tree;
  other.zero = "1";
  CHECK(comm_situation({0, 1, 0}, "CPU", other) == situation);
  other.micro_batch = 3;
  CHECK(comm_situation({0, 0, 1, 1}, "CPU", other) != situation);
}

}  // namespace gpt
