#include "train/plan.hpp"

#include "support/scratch_folder.hpp"
#include "unit/small_dataset.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <vector>

namespace gpt {
namespace {

using test::error_of;
using test::says;

constexpr int64_t vocabulary = 50;
constexpr int64_t shards = 4;

/// 4 shards of 83 tokens: 10 windows of 8 in each.
struct Example {
  test::ScratchFolder folder;
  Dataset dataset;
  TrainOptions options;

  Example() : dataset(write(folder.path())) {
    options.model.context = 8;
    options.global_batch = 12;
    options.micro_batch = 5;
    options.steps = 77;
  }
  static std::string write(const std::string& path) {
    test::write_dataset(path, test::counting(shards * 83, vocabulary), shards, vocabulary);
    return path;
  }
  Plan plan(int rank = 0, int ranks = 1, const TrainState& done = {}) const {
    return make_plan(options, dataset, done, rank, ranks);
  }
};

TEST_CASE("a plan counts windows and tokens") {
  const Example example;
  const Plan plan = example.plan();
  CHECK(plan.lanes == shards);
  CHECK(plan.windows_per_lane == 10);
  CHECK(plan.windows_per_step == 3);
  CHECK(plan.tokens_per_step == 12 * 8);
  CHECK(plan.steps == 77);
  CHECK(plan.sequences == Range{0, 12});
  CHECK(plan.shards == Range{0, 4});
  CHECK(plan.micro_batch == 5);
}

TEST_CASE("ranks divide the batch without gap or overlap, and know the shards of their part") {
  const Example example;
  for (int ranks = 1; ranks <= 12; ++ranks) {
    CAPTURE(ranks);
    int64_t next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const Plan plan = example.plan(rank, ranks);
      CHECK(plan.sequences.begin == next);
      REQUIRE(!plan.sequences.empty());
      next = plan.sequences.end;
      CHECK(plan.micro_batch == std::min<int64_t>(5, plan.sequences.size()));
      const Lanes lanes = plan.make_lanes(1, {});
      CHECK(plan.shards.begin == lanes.sequence(plan.sequences.begin, 12, 0).lane);
      CHECK(plan.shards.end == lanes.sequence(plan.sequences.end - 1, 12, 0).lane + 1);
    }
    CHECK(next == 12);
  }
}

TEST_CASE("with the tree of leaves ranks get whole ones") {
  Example example;
  example.options.reduction = "tree";  // leaves of 5, 5 and 2 sequences
  const std::vector<std::vector<Range>> expected = {
      {{0, 12}}, {{0, 5}, {5, 12}}, {{0, 5}, {5, 10}, {10, 12}}};
  for (int ranks = 1; ranks <= 3; ++ranks)
    for (int rank = 0; rank < ranks; ++rank) {
      const Plan plan = example.plan(rank, ranks);
      CHECK(plan.all_leaves == 3);
      CHECK(plan.leaves == leaves_of_ranks(example.options, ranks)[static_cast<size_t>(rank)]);
      CHECK(plan.sequences == expected[static_cast<size_t>(ranks - 1)][static_cast<size_t>(rank)]);
    }
  const Error error = error_of([&] { example.plan(0, 4); });
  CHECK(error.code() == ExitCode::usage);
  for (const char* part : {"--reduction tree", "3 leaves", "--micro-batch 3 or less"})
    CHECK(says(error, part));
}

TEST_CASE("epochs become steps, the last one never begun without its windows") {
  Example example;
  for (const auto& [epochs, steps] :
       {std::pair{1.0, 3}, {2.0, 6}, {2.5, 8}, {3.0, 10}, {0.1, 0}, {30.0, 100}}) {
    CAPTURE(epochs);
    example.options.epochs = epochs;
    CHECK(example.plan().steps == steps);
  }
}

TEST_CASE("epochs count from the beginning of training, whatever the batches were") {
  Example example;
  example.options.epochs = 2.0;
  CHECK(example.plan(0, 1, {.step = 5, .cursor = 10, .skipped = {}, .spikes = {}}).steps == 5 + 3);
  CHECK(example.plan(0, 1, {.step = 5, .cursor = 5, .skipped = {}, .spikes = {}}).steps == 5 + 5);
  CHECK(example.plan(0, 1, {.step = 5, .cursor = 20, .skipped = {}, .spikes = {}}).steps == 5);
  CHECK(example.plan(0, 1, {.step = 5, .cursor = 99, .skipped = {}, .spikes = {}}).steps == 5);
  example.options.epochs = 0.0;
  CHECK(example.plan(0, 1, {.step = 5, .cursor = 10, .skipped = {}, .spikes = {}}).steps == 77);
}

TEST_CASE("a batch that does not fit the shards is refused with those that do") {
  Example example;
  for (const auto& [batch, advice] : {std::pair{13, "use 12 or 16"}, {2, "use 4,"}, {7, "use 4 or 8"}}) {
    CAPTURE(batch);
    example.options.global_batch = batch;
    const Error error = error_of([&] { example.plan(); });
    CHECK(error.code() == ExitCode::usage);
    CHECK(says(error, "--global-batch " + std::to_string(batch)));
    CHECK(says(error, advice));
    CHECK(says(error, "reshard"));
  }
}

TEST_CASE("more ranks than sequences are refused") {
  const Example example;
  const Error error = error_of([&] { example.plan(0, 13); });
  CHECK(error.code() == ExitCode::usage);
  CHECK(says(error, "--global-batch 12 is smaller than the 13 ranks: use 16 or more"));
}

TEST_CASE("shards too short for one window are refused with the numbers") {
  Example example;
  example.options.model.context = 82;
  CHECK(example.plan().windows_per_lane == 1);
  example.options.model.context = 83;
  const Error error = error_of([&] { example.plan(); });
  CHECK(error.code() == ExitCode::usage);
  for (const char* part : {"has 83 tokens", "--context 83", "needs 84", "reshard"}) CHECK(says(error, part));
}

}  // namespace
}  // namespace gpt
