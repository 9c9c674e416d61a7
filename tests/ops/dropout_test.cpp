#include "harness.hpp"

#include <cmath>
#include <doctest/doctest.h>

using namespace gpt;
using namespace gpt::test;

namespace {

constexpr Dropout dropping{.rate = 0.3F, .seed = 42, .step = 5, .site = 1, .first_sequence = 8};

/// Factors that an operation applied: ones through embed, whose tables are 1 and 0 in any type.
Array factors(Device& device, const Dropout& dropout, int64_t sequences, int64_t positions, int64_t width,
              DType type = DType::f32) {
  const Guarded x(DType::f32, {sequences, positions, width});
  device.ops().embed(x, Guarded({sequences, positions}, Tokens(sequences * positions)),
                     Guarded(type, {1, width}, Array(width, 1.0)),
                     Guarded(type, {positions, width}, Array(positions * width)), 0, dropout,
                     *device.make_queue());
  return x.values();
}

}  // namespace

TEST_CASE("dropout keeps the share that it should and scales it, at every rate") {
  for (float rate : {0.01F, 0.1F, 0.5F, 0.9F}) {
    Dropout dropout = dropping;
    dropout.rate = rate;
    const Array kept = factors(*devices().back(), dropout, 4, 100, 250);
    int64_t survivors = 0;
    for (double factor : kept) {
      if (factor == 0.0) continue;
      ++survivors;
      REQUIRE(factor == static_cast<double>(1.0F / (1.0F - rate)));
    }
    const double expected = 1.0 - static_cast<double>(rate);
    const double deviation = std::sqrt(expected * static_cast<double>(rate) / 1e5);
    CHECK(std::abs(static_cast<double>(survivors) / 1e5 - expected) < 4.0 * deviation);
  }
}

TEST_CASE("dropout does not depend on how a batch is cut into micro-batches") {
  const Array whole = factors(*devices().back(), dropping, 6, 5, 33);
  Array pieces;
  for (int64_t begin : {0, 1, 4}) {
    Dropout part = dropping;
    part.first_sequence += begin;
    const int64_t count = begin == 0 ? 1 : begin == 1 ? 3 : 2;
    const Array piece = factors(*devices().front(), part, count, 5, 33);
    pieces.insert(pieces.end(), piece.begin(), piece.end());
  }
  CHECK(pieces == whole);
}

TEST_CASE("attention's dropout does not depend on the micro-batch") {
  const int64_t positions = 37;
  const int64_t row = positions * 3 * 24;
  const Array qkv = random_floats(3 * row, 1);
  for (DType type : float_types) {
    INFO(std::string(name_of(type)));
    const auto run = [&](int64_t begin, int64_t count) {
      Dropout part = dropping;
      part.first_sequence += begin;
      const Array piece(qkv.begin() + begin * row, qkv.begin() + (begin + count) * row);
      const Guarded y(type, {count, positions, 24});
      const Guarded log_sum(DType::f32, {count, 3, positions});
      const auto& device = devices().back();
      device->ops().attention(y, log_sum, Guarded(type, {count, positions, 72}, piece), 3, part,
                              *device->make_queue());
      return y.values();
    };
    const Array whole = run(0, 3);
    Array pieces = run(0, 1);
    const Array rest = run(1, 2);
    pieces.insert(pieces.end(), rest.begin(), rest.end());
    CHECK(pieces == whole);
  }
}

TEST_CASE("dropout differs between sequences, sites, steps and seeds") {
  const Array base = factors(*devices().front(), dropping, 1, 8, 64);
  for (int change = 0; change < 4; ++change) {
    Dropout other = dropping;
    if (change == 0) ++other.first_sequence;
    if (change == 1) ++other.site;
    if (change == 2) ++other.step;
    if (change == 3) other.seed += uint64_t{1} << 32;
    CHECK(factors(*devices().front(), other, 1, 8, 64) != base);
  }
}

TEST_CASE("embed, add_norm and their backward drop the same elements") {
  for (DType type : float_types) {
    const int64_t width = 20;
    const Array ones(2 * 3 * width, 1.0);
    const Array expected = factors(*devices().front(), dropping, 2, 3, width);
    CHECK(factors(*devices().back(), dropping, 2, 3, width, type) == expected);
    const auto& device = devices().back();
    const auto queue = device->make_queue();

    const Guarded sum(DType::f32, {2, 3, width});
    const Guarded y(type, {2, 3, width});
    const Guarded mean(DType::f32, {6});
    const Guarded rstd(DType::f32, {6});
    const Guarded weight({width}, Array(width));
    device->ops().add_norm(sum, y, mean, rstd, Guarded({2, 3, width}, Array(2 * 3 * width)),
                           Guarded(type, {2, 3, width}, ones), weight, {}, dropping, *queue);
    CHECK(sum.values() == expected);

    const Guarded dx({2, 3, width}, ones);  // the norm adds nothing: its weight is zero
    const Guarded d_delta(type, {2, 3, width});
    const Guarded d_weight(DType::f32, {width});
    device->ops().add_norm_backward(dx, d_delta, d_weight, {}, Guarded(type, {2, 3, width}, ones), sum, mean,
                                    rstd, weight, dropping, Write::accumulate, Write::overwrite, *queue);
    CHECK(d_delta.values() == rounded(expected, type));

    const Guarded d_wte({6, width}, Array(6 * width));
    const Guarded d_wpe(DType::f32, {3, width});
    device->ops().embed_backward(d_wte, d_wpe, Guarded({2, 3, width}, ones),
                                 Guarded({2, 3}, Tokens{0, 1, 2, 3, 4, 5}), dropping, Write::overwrite,
                                 *queue);
    CHECK(d_wte.values() == expected);
  }
}
