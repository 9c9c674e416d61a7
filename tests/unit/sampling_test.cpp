#include "model/sampling.hpp"

#include "base/error.hpp"
#include "base/normal.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

using namespace gpt;

namespace {

std::vector<double> frequencies(const std::vector<float>& logits, const Sampling& sampling) {
  constexpr int draws = 20'000;
  std::vector<double> counts(logits.size());
  for (int i = 0; i < draws; ++i)
    counts[static_cast<size_t>(sample(logits, sampling, 0, static_cast<uint64_t>(i)))] += 1.0 / draws;
  return counts;
}

}  // namespace

TEST_CASE("temperature 0 takes the likeliest token, of equal ones the first") {
  const std::vector<float> logits = {0.5F, 2.0F, -1.0F, 2.0F};
  for (uint64_t index = 0; index < 10; ++index) CHECK(sample(logits, {.temperature = 0.0}, 3, index) == 1);
}

TEST_CASE("tokens are drawn with the softmax's probabilities") {
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.2F)};
  const auto plain = frequencies(logits, {});
  CHECK(plain[0] == doctest::Approx(0.5).epsilon(0.03));
  CHECK(plain[2] == doctest::Approx(0.2).epsilon(0.05));
  const auto cold = frequencies(logits, {.temperature = 0.5});  // squares: 25 : 9 : 4
  CHECK(cold[0] == doctest::Approx(25.0 / 38.0).epsilon(0.03));
}

TEST_CASE("top-k and top-p leave out the less likely") {
  const std::vector<float> logits = {std::log(0.2F), std::log(0.5F), std::log(0.3F)};
  const auto two = frequencies(logits, {.top_k = 2});
  CHECK(two[0] == 0.0);
  CHECK(two[1] == doctest::Approx(0.625).epsilon(0.03));
  const auto nucleus = frequencies(logits, {.top_p = 0.5});
  CHECK(nucleus[0] + nucleus[2] == 0.0);
  const auto wider = frequencies(logits, {.top_p = 0.51});
  CHECK(wider[0] == 0.0);
  CHECK(wider[2] > 0.3);
  const auto all = frequencies(logits, {.top_k = 99'999});
  CHECK(all[0] == doctest::Approx(0.2).epsilon(0.05));
}

TEST_CASE("top-p takes its part of what top-k leaves") {
  const std::vector<float> logits = {std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};
  // Three are left, with 0.9: a part of 0.75 is reached by 0.4 and 0.3, which of all would need 0.2 as well.
  const auto two = frequencies(logits, {.top_k = 3, .top_p = 0.75});
  CHECK(two[1] == doctest::Approx(4.0 / 7).epsilon(0.03));
  CHECK(two[3] == doctest::Approx(3.0 / 7).epsilon(0.03));
  CHECK(two[0] + two[2] == 0.0);
  // 0.44 of 0.9 is less than 0.4.
  CHECK(frequencies(logits, {.top_k = 3, .top_p = 0.44})[1] == doctest::Approx(1.0));
  const auto three = frequencies(logits, {.top_k = 3, .top_p = 0.99});
  CHECK(three[2] == doctest::Approx(2.0 / 9).epsilon(0.05));
  CHECK(three[0] == 0.0);
}

TEST_CASE("logits that are not finite are an error that names the token") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity})
    for (const Sampling& sampling :
         {Sampling{.temperature = 0.0}, Sampling{}, Sampling{.top_k = 2}, Sampling{.top_p = 0.5}}) {
      std::vector<float> logits(40, 1.0F);
      logits[37] = bad;
      try {
        sample(logits, sampling, 0, 0);
        FAIL("not refused: ", bad);
      } catch (const Error& error) {
        CHECK(error.code() == ExitCode::bad_numbers);
        CHECK(std::string(error.what()).find("logit of token 37 is ") != std::string::npos);
      }
    }
}

TEST_CASE("of a large vocabulary top-p leaves what a full sort leaves") {
  constexpr int64_t vocabulary = 3000;
  std::vector<float> logits;
  for (int64_t i = 0; i < vocabulary; ++i)
    logits.push_back(static_cast<float>(random_normal(5, static_cast<uint64_t>(i))));
  std::vector<size_t> order(static_cast<size_t>(vocabulary));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  const double total = std::accumulate(logits.begin(), logits.end(), 0.0, [](double sum, float logit) {
    return sum + std::exp(static_cast<double>(logit));
  });
  for (const double top_p : {0.3, 0.9}) {
    const auto found = frequencies(logits, {.top_p = top_p});
    double reached = 0.0, inside = 0.0, outside = 0.0;
    for (const size_t token : order) {
      (reached < top_p * total ? inside : outside) += found[token];
      reached += std::exp(static_cast<double>(logits[token]));
    }
    CHECK(inside == doctest::Approx(1.0));
    CHECK(outside == 0.0);
    CHECK(
        found[order.front()] ==
        doctest::Approx(std::exp(static_cast<double>(logits[order.front()])) / (top_p * total)).epsilon(0.2));
  }
}

TEST_CASE("extreme temperatures draw the likeliest token, or all alike") {
  const std::vector<float> logits = {1.0F, 3.0F, 2.0F};
  CHECK(frequencies(logits, {.temperature = 1e-300})[1] == doctest::Approx(1.0));
  CHECK(frequencies(logits, {.temperature = 1e300})[0] == doctest::Approx(1.0 / 3).epsilon(0.05));
}

TEST_CASE("draws repeat with their seed and differ between sequences") {
  const std::vector<float> logits(50, 0.0F);
  std::vector<int32_t> first, again, other;
  for (uint64_t i = 0; i < 20; ++i) {
    first.push_back(sample(logits, {.seed = 4}, 0, i));
    again.push_back(sample(logits, {.seed = 4}, 0, i));
    other.push_back(sample(logits, {.seed = 4}, 1, i));
  }
  CHECK(first == again);
  CHECK(first != other);
}

TEST_CASE("sampling options out of range are refused") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Sampling& bad :
       {Sampling{.temperature = -1.0}, Sampling{.temperature = nan}, Sampling{.top_k = -1},
        Sampling{.top_p = 0.0}, Sampling{.top_p = 1.5}, Sampling{.top_p = nan}})
    CHECK_THROWS_AS(validate_sampling(bad), Error);
  CHECK_NOTHROW(validate_sampling({.temperature = 0.0, .top_k = 99'999}));
}
