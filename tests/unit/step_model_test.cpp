#include "train/step_model.hpp"

#include "base/error.hpp"

#include <doctest/doctest.h>
#include <vector>

namespace gpt {
namespace {

constexpr double gigabit = 8.0 / 1e9;  // seconds a byte
const Link fast{1e-6, gigabit / 100};
const Link slow{100e-6, gigabit};

StepShape gpt2_step(double compute) {
  GptConfig config;
  for (const Preset& preset : presets())
    if (std::string(preset.name) == "gpt2") config = preset.config;
  config.vocabulary = 50257;
  const Layout layout(config);
  return {.gradients = ready_gradients(layout, config, compute), .compute = compute};
}

}  // namespace

TEST_CASE("collectives cost what Thakur et al. 2005 say") {
  const double mebibyte = 1 << 20;
  CHECK(ring_all_reduce(4, mebibyte).messages == 6);
  CHECK(ring_all_reduce(4, mebibyte).bytes == 1.5 * mebibyte);
  CHECK(halving_all_reduce(8, mebibyte).messages == 6);
  CHECK(halving_all_reduce(8, mebibyte).bytes == 1.75 * mebibyte);
  CHECK(doubling_all_reduce(5, mebibyte).messages == 3);
  CHECK(doubling_all_reduce(5, mebibyte).bytes == 3 * mebibyte);
  for (const auto& cost : {ring_all_reduce, halving_all_reduce, doubling_all_reduce})
    CHECK(cost(1, mebibyte).seconds(slow) == 0.0);
  // 1.5 MiB at 1 Gbit/s and six messages of 100 us.
  CHECK(ring_all_reduce(4, mebibyte).seconds(slow) == doctest::Approx(12.582912e-3 + 0.6e-3));
}

TEST_CASE("the library counts as the cheapest of the known algorithms") {
  const Cluster cluster{.nodes = 64, .ranks_per_node = 1, .intra = fast, .inter = slow};
  const CommPlan library{.inter = Inter::library};
  CHECK(all_reduce_seconds(cluster, library, 4) == doctest::Approx(doubling_all_reduce(64, 4).seconds(slow)));
  CHECK(all_reduce_seconds(cluster, library, 1e9) ==
        doctest::Approx(halving_all_reduce(64, 1e9).seconds(slow)));
}

TEST_CASE("a node's link carries 2M(n-1)/n, however many ranks it has, and half of it in bf16") {
  for (const int64_t ranks : {1, 2, 8}) {
    const Cluster cluster{.nodes = 4, .ranks_per_node = ranks, .intra = fast, .inter = slow};
    CHECK(all_reduce_terms(cluster, {}, 1e6).inter.bytes == doctest::Approx(1.5e6));
    CHECK(all_reduce_terms(cluster, {.wire_peers = DType::bf16}, 1e6).inter.bytes == doctest::Approx(0.75e6));
    // A flat ring placed by node sends what N ranks need.
    const double n = 4.0 * static_cast<double>(ranks);
    CHECK(all_reduce_terms(cluster, {.reduction = Reduction::flat}, 1e6).inter.bytes ==
          doctest::Approx(2e6 * (n - 1) / n));
  }
}

TEST_CASE("hops overlap: the longer one counts, and a block of the other") {
  const Cluster cluster{.nodes = 2, .ranks_per_node = 2, .intra = {0, 1e-9}, .inter = {0, 1e-8}};
  // 8 MiB: lanes of 4 blocks. Inside 1·M bytes, between nodes 1·M bytes.
  const double bytes = 8 << 20;
  const CommPlan plan{.block_bytes = 1 << 20};
  CHECK(all_reduce_seconds(cluster, plan, bytes) == doctest::Approx(bytes * 1e-8 + bytes * 1e-9 / 4));
  // One block: one hop after the other.
  CHECK(all_reduce_seconds(cluster, plan, 1000) == doctest::Approx(1000 * 1.1e-8));
  // The library's sums wait for each other.
  CHECK(all_reduce_seconds(cluster, {.inter = Inter::library}, bytes) == doctest::Approx(bytes * 1.1e-8));
}

TEST_CASE("halving wants a power of two of nodes") {
  const Cluster cluster{.nodes = 3, .ranks_per_node = 1, .intra = fast, .inter = slow};
  CHECK_THROWS_AS(all_reduce_seconds(cluster, {.inter = Inter::halving}, 1.0), Error);
}

TEST_CASE("a fit finds the link that the samples came from") {
  const Link link{37e-6, 2.5e-9};
  std::vector<CostSample> samples;
  for (const double bytes : {1e3, 1e5, 1e6, 3.2e7})
    for (const int64_t nodes : {2, 4}) {
      const CostTerms terms = ring_all_reduce(nodes, bytes);
      samples.push_back({terms, 1e-5, 1e-5 + terms.seconds(link)});
    }
  const Link found = fit_link(samples);
  CHECK(found.latency == doctest::Approx(link.latency));
  CHECK(found.seconds_per_byte == doctest::Approx(link.seconds_per_byte));
  CHECK(worst_error(samples, found) < 1e-9);
  CHECK(worst_error(samples, {link.latency, 2 * link.seconds_per_byte}) > 0.5);

  SUBCASE("one size says nothing of the latency") {
    const CostTerms terms = ring_all_reduce(2, 1e6);
    const std::vector<CostSample> one{{terms, 0.0, 2e-3}, {terms, 0.0, 2e-3}};
    CHECK(fit_link(one).latency == 0.0);
    CHECK(fit_link(one).seconds_per_byte == doctest::Approx(2e-9));
  }
  SUBCASE("constants are never negative") {
    // Faster than in proportion: the latency would be negative.
    const std::vector<CostSample> odd{{ring_all_reduce(2, 1e6), 0.0, 1e-3},
                                      {ring_all_reduce(2, 2e6), 0.0, 3e-3}};
    CHECK(fit_link(odd).latency == 0.0);
    CHECK(fit_link(odd).seconds_per_byte > 0.0);
  }
  SUBCASE("nothing travels on one rank") {
    const std::vector<CostSample> none{{ring_all_reduce(1, 1e6), 0.0, 1e-3}};
    CHECK_THROWS_AS(fit_link(none), Error);
  }
}

TEST_CASE("messages travel one at a time, none before it is ready") {
  CHECK(pipeline_end({}) == 0.0);
  const std::vector<Message> waiting{{1.0, 0.5}, {2.0, 0.5}};
  CHECK(pipeline_end(waiting) == 2.5);
  const std::vector<Message> queued{{1.0, 3.0}, {2.0, 0.5}};
  CHECK(pipeline_end(queued) == 4.5);
}

TEST_CASE("gradients are ready in backward's order, the embeddings with the first block") {
  const StepShape shape = gpt2_step(3.0);
  REQUIRE(shape.gradients.size() == 2 * 12 + 2);
  for (size_t i = 1; i < shape.gradients.size(); ++i)
    CHECK(shape.gradients[i].ready >= shape.gradients[i - 1].ready);
  CHECK(shape.gradients.back().ready == doctest::Approx(3.0));
  // Forward of the blocks and all of the head come before: more than a third.
  CHECK(shape.gradients.front().ready > 1.0);
  CHECK(shape.gradients.front().ready < 2.0);

  const std::vector<ReadyGradients> equal = ready_gradients(1000, 4, 3.0);
  CHECK(equal.front().elements == Range{750, 1000});
  CHECK(equal.front().ready == doctest::Approx(1.5));
  CHECK(equal.back().elements == Range{0, 250});
  CHECK(equal.back().ready == doctest::Approx(3.0));
}

TEST_CASE("buckets join neighbours until they are long enough") {
  const std::vector<ReadyGradients> sections{
      {{300, 400}, 1.0}, {{200, 300}, 2.0}, {{100, 200}, 3.0}, {{400, 900}, 4.0}};
  const std::vector<Bucket> buckets = buckets_of(sections, 500);
  REQUIRE(buckets.size() == 3);
  CHECK(buckets[0].bytes == 800.0);  // the first alone was too short
  CHECK(buckets[0].ready == 2.0);
  CHECK(buckets[1].bytes == 400.0);  // no neighbour follows
  CHECK(buckets[2].bytes == 2000.0);
  CHECK(buckets_of(sections, 1'000'000'000).size() == 2);
  CHECK(buckets_of(sections, 1).size() == 4);
}

TEST_CASE("a step without ranks to talk to is as long as its work") {
  StepShape shape = gpt2_step(0.9);
  shape.optimizer = 0.1;
  const StepPrediction alone =
      predict_step({.nodes = 1, .ranks_per_node = 1, .intra = fast, .inter = slow}, {}, shape);
  CHECK(alone.step == doctest::Approx(1.0));
  CHECK(alone.communication == 0.0);
  CHECK(alone.exposed == doctest::Approx(0.0));
  CHECK(alone.efficiency == doctest::Approx(1.0));
}

TEST_CASE("what cannot hide behind backward makes the step longer: an example by hand") {
  // Two layers of 250 000 elements, 1 MB each; backward ends at 3 s, its first half at 2 s.
  const StepShape shape{.gradients = ready_gradients(500'000, 2, 3.0), .compute = 3.0, .bucket_bytes = 1};
  const Cluster pair{.nodes = 2, .ranks_per_node = 1, .intra = {}, .inter = {0.0, 0.5e-6}};
  // 2(n-1)/n = 1: half a second each, of which the first is hidden.
  const StepPrediction step = predict_step(pair, {}, shape);
  CHECK(step.communication == doctest::Approx(1.0));
  CHECK(step.exposed == doctest::Approx(0.5));
  CHECK(step.efficiency == doctest::Approx(3.0 / 3.5));

  // One bucket: all of it after backward.
  StepShape whole = shape;
  whole.bucket_bytes = 1'000'000'000;
  CHECK(predict_step(pair, {}, whole).exposed == doctest::Approx(1.0));

  // The thread takes a part of the core: in the half second of the first message backward does the rest of
  // it, and so the second one begins later. With nothing left for backward it stands still meanwhile.
  StepShape shared = shape;
  shared.thread = 0.1;
  CHECK(predict_step(pair, {}, shared).exposed == doctest::Approx(0.55));
  shared.thread = 0.9;
  CHECK(predict_step(pair, {}, shared).exposed == doctest::Approx(0.95));
  for (const double all : {1.0, 5.0}) {
    shared.thread = all;
    CHECK(predict_step(pair, {}, shared).exposed == doctest::Approx(1.0));
  }
  // Backward goes on behind a message that ends after it: 1 s at nine tenths of the pace.
  shared.thread = 0.1;
  shared.gradients = {{{0, 500'000}, 2.0}};
  CHECK(predict_step(pair, {}, shared).exposed == doctest::Approx(0.1));
}

TEST_CASE("more nodes, longer messages and slower links never make a step shorter") {
  const StepShape shape = gpt2_step(0.5);
  double last = 0.0;
  for (const int64_t nodes : {1, 2, 4, 64, 1024, 4096}) {
    const StepPrediction step =
        predict_step({.nodes = nodes, .ranks_per_node = 8, .intra = fast, .inter = slow}, {}, shape);
    CHECK(step.step >= last);
    CHECK(step.efficiency <= 1.0);
    CHECK(step.exposed >= 0.0);
    last = step.step;
  }
  const Cluster pair{.nodes = 2, .ranks_per_node = 1, .intra = fast, .inter = slow};
  CHECK(predict_step(pair, {.wire_peers = DType::bf16}, shape).step < predict_step(pair, {}, shape).step);
  const Cluster quick{.nodes = 2, .ranks_per_node = 1, .intra = fast, .inter = {0.0, 0.0}};
  CHECK(predict_step(quick, {}, shape).exposed == doctest::Approx(0.0));
}

}  // namespace gpt
