#include "train/comm_choice.hpp"

#include <doctest/doctest.h>

namespace gpt {
namespace {

std::string names(const TrainOptions& options, int nodes, int ranks) {
  std::string text;
  for (const CommCandidate& candidate : comm_candidates(options, nodes, ranks))
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
  const CommChoice choice{.situation = "4 ranks, \"odd\"", .reduction = "flat", .inter = "ring"};
  CHECK(parse_comm_choice(to_text(choice)) == choice);
  for (const char* text : {"", "{", "[]", "{}", R"({"situation":"a","reduction":"flat"})",
                           R"({"situation":"a","reduction":1,"inter":"ring"})"})
    CHECK_FALSE(parse_comm_choice(text));
}

TEST_CASE("only what is left open and makes a difference is measured") {
  CHECK(names(options_of("auto", "auto"), 1, 1) == "hierarchical/ring ");
  CHECK(names(options_of("auto", "auto"), 1, 4) == "hierarchical/ring flat/ring ");
  CHECK(names(options_of("auto", "auto"), 2, 4) == "hierarchical/ring hierarchical/mpi flat/ring ");
  CHECK(names(options_of("auto", "auto"), 3, 6) == "hierarchical/ring hierarchical/mpi flat/ring ");
  CHECK(names(options_of("auto", "auto"), 4, 8) ==
        "hierarchical/ring hierarchical/mpi hierarchical/halving flat/ring ");
  CHECK(names(options_of("hierarchical", "auto"), 4, 8) ==
        "hierarchical/ring hierarchical/mpi hierarchical/halving ");
  CHECK(names(options_of("hierarchical", "mpi"), 4, 8) == "hierarchical/mpi ");
  CHECK(names(options_of("flat", "auto"), 4, 8) == "flat/ring ");
  CHECK(names(options_of("tree", "auto"), 4, 8) == "tree/ring ");
  TrainOptions rounded = options_of("auto", "ring");
  rounded.wire = "fp32,bf16";
  CHECK(names(rounded, 4, 8) == "hierarchical/ring ");
  TrainOptions sharded = options_of("auto", "ring");
  sharded.zero = "node";
  CHECK(names(sharded, 4, 8) == "hierarchical/ring ");
}

}  // namespace gpt
