#include "base/error.hpp"
#include "bench/byte_size.hpp"
#include "bench/known_sums.hpp"
#include "bench/plan_name.hpp"
#include "bench/scaling.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace gpt {
namespace {

template <class T>
Tensor tensor(std::vector<T>& values) {
  return {values.data(), dtype_of<T>(), {static_cast<int64_t>(values.size())}};
}

// What every rank contributes, added in T in the order of the ranks.
template <class T>
std::vector<T> summed(int ranks, size_t count) {
  std::vector<T> sum(count), part(count);
  for (int rank = 0; rank < ranks; ++rank) {
    KnownSums(rank, ranks).fill(tensor(part));
    for (size_t i = 0; i < count; ++i)
      sum[i] = static_cast<T>(static_cast<float>(sum[i]) + static_cast<float>(part[i]));
  }
  return sum;
}

}  // namespace

TEST_CASE("known sums are exact in every type, at every rank count") {
  constexpr size_t count = 20'000;
  for (const int ranks : {1, 2, 3, 8, 40}) {
    CAPTURE(ranks);
    const KnownSums known(0, ranks);
    auto singles = summed<float>(ranks, count);
    CHECK(known.wrong(tensor(singles), 0) == 0);
    auto halves = summed<bfloat16>(ranks, count);
    CHECK(known.wrong(tensor(halves), 0) == 0);
    auto doubles = summed<double>(ranks, count);
    CHECK(known.wrong(tensor(doubles), 0) == 0);
  }
}

TEST_CASE("what is not the sum is counted") {
  constexpr size_t count = 20'000;
  const KnownSums known(1, 3);
  auto sum = summed<float>(3, count);
  sum[7] += 1.0F;
  sum[19'999] = 0.5F;
  CHECK(known.wrong(tensor(sum), 0) == 2);

  SUBCASE("one rank's contribution alone") {
    known.fill(tensor(sum));
    CHECK(known.wrong(tensor(sum), 0) > int64_t{count} / 2);
  }
  SUBCASE("pieces in the wrong place") {
    auto right = summed<float>(3, count);
    for (const int64_t piece : {1, 16, 1024, 4096}) {
      const Tensor moved = tensor(right).flat({piece, int64_t{count}});
      CHECK(known.wrong(moved, piece) == 0);
      CHECK(known.wrong(moved, 0) > int64_t{count} / 2);
    }
  }
  SUBCASE("what nobody wrote") {
    KnownSums::spoil(tensor(sum));
    CHECK(known.wrong(tensor(sum), 0) == int64_t{count});
    known.fill_with_sums(tensor(sum));
    CHECK(known.wrong(tensor(sum), 0) == 0);
  }
}

TEST_CASE("sizes are read in powers of 1024") {
  CHECK(parse_bytes("sizes", "0") == 0);
  CHECK(parse_bytes("sizes", "4") == 4);
  CHECK(parse_bytes("sizes", "32K") == 32 * 1024);
  for (const char* same : {"1M", "1MiB", "1024KiB", "1048576"}) CHECK(parse_bytes("sizes", same) == 1 << 20);
  CHECK(parse_bytes("sizes", "8589934591G") == int64_t{8589934591} << 30);
  for (const char* bad : {"", "K", "4k", "-4", "4 K", "1.5M", "8589934592G", "99999999999999999999", "4MB",
                          "4iB", "iB", "MiB"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_bytes("sizes", bad), Error);
  }
  CHECK(split_list("what", "a,b") == std::vector<std::string>{"a", "b"});
  for (const char* bad : {"", ",", "a,", ",a", "a,,b"}) CHECK_THROWS_AS(split_list("what", bad), Error);
}

TEST_CASE("what of communication is hidden is a figure only where there is something to hide") {
  ScalingPoint point;
  point.ranks = 2;
  point.section_bytes = {500, 300, 200};  // the last, the embeddings, cannot be hidden
  const auto with_steps = [&](double none, double after, double overlapped, double thread) {
    point.none.all = {none, none};
    point.afterwards.all = {after, after};
    point.overlapped.all = {overlapped, overlapped};
    point.thread.all = {thread, thread};
  };
  with_steps(1.0, 1.2, 1.1, 0.0);
  CHECK(point.hideable() == doctest::Approx(0.16));
  CHECK(point.hidden_share().value() == doctest::Approx(0.1 / 0.16));
  point.none.all = {0.97, 1.03};  // 0.03 from their median each: four times that is less than 0.16
  CHECK(point.hidden_share().value() == doctest::Approx(0.1 / 0.16));
  point.none.all = {0.95, 1.05};
  CHECK_FALSE(point.hidden_share());
  point.none.all = {1.0};  // one round does not tell how steps vary
  CHECK_FALSE(point.hidden_share());
  with_steps(1.0, 1.2, 1.1, 0.06);
  CHECK(point.hidden_share().value() == doctest::Approx(1.0));
  with_steps(1.0, 1.2, 1.1, 0.155);  // half a hundredth of the step
  CHECK(point.hideable() > 0.0);
  CHECK_FALSE(point.hidden_share());
  with_steps(0.01, 0.011, 0.012, 0.0);  // a twelfth of the step, but less than a millisecond
  CHECK_FALSE(point.hidden_share());
  with_steps(1.0, 0.9, 1.0654, 0.0);  // noise
  CHECK(point.communication() == 0.0);
  CHECK(point.exposed() == doctest::Approx(0.0654));
  CHECK_FALSE(point.hidden_share());
}

TEST_CASE("plans are named by what is in effect") {
  const auto name = [](const CommPlan& plan, DType dtype, bool sums, int64_t nodes) {
    return plan_in_effect(plan, dtype, sums, nodes).name;
  };
  const CommPlan ring{.inter = Inter::ring};
  const CommPlan halving{.inter = Inter::halving, .wire_node = DType::f32, .wire_peers = DType::bf16};
  const CommPlan narrow{.inter = Inter::library, .wire_node = DType::bf16, .wire_peers = DType::bf16};
  CHECK(name(ring, DType::f32, true, 2) == "hierarchical/ring/fp32");
  CHECK(name(halving, DType::f32, true, 2) == "hierarchical/direct/fp32,bf16");
  CHECK(name(narrow, DType::f32, true, 2) == "hierarchical/direct/bf16");
  CHECK(plan_in_effect(halving, DType::f32, true, 3).plan.inter == Inter::direct);

  CHECK(name(ring, DType::f32, true, 1) == "hierarchical/fp32");
  CHECK(name(halving, DType::f32, true, 1) == "hierarchical/fp32");
  CHECK(name(narrow, DType::f32, true, 1) == "hierarchical/bf16");
  CHECK(plan_in_effect(halving, DType::f32, true, 1).inter.empty());
  CHECK_FALSE(plan_in_effect(halving, DType::f32, true, 1).plan.rounds());

  CHECK(name(ring, DType::bf16, true, 2) == "hierarchical/direct");
  CHECK(name(narrow, DType::f64, true, 2) == "hierarchical/mpi");
  CHECK(name(halving, DType::f32, false, 2) == "hierarchical/halving");
  CHECK(name(halving, DType::f32, false, 1) == "hierarchical");
  CHECK(name({.reduction = Reduction::flat}, DType::f32, true, 2) == "flat");
  CHECK(name({.reduction = Reduction::tree}, DType::f32, true, 2) == "tree");

  CHECK(name_on_one_node("hierarchical/direct/fp32,bf16") == "hierarchical/fp32");
  CHECK(name_on_one_node("hierarchical/ring/bf16") == "hierarchical/bf16");
  for (const char* same : {"flat", "hierarchical/fp32", ""}) CHECK(name_on_one_node(same) == same);
  CHECK(nodes_of_first({"0", "0", "1", "2"}, 2) == 1);
  CHECK(nodes_of_first({"0", "1", "0", "1"}, 4) == 2);
}

}  // namespace gpt
