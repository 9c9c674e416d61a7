#pragma once

#include "bench/times.hpp"

#include <nlohmann/json.hpp>

namespace gpt {

inline nlohmann::json times_json(const Times& times) {
  return {{"times_s", times.all}, {"least_s", times.least()}, {"median_s", times.median()}};
}

}  // namespace gpt
