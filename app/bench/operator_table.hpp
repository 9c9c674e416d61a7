#pragma once

#include "bench/operator_bounds.hpp"

#include <nlohmann/json_fwd.hpp>

namespace gpt {

/// Where a step's time goes, by operation, and how near `untimed` is to the bound: seconds of a step in which
/// no operation was timed. docs/benchmarks.md explains the columns.
void print_operators(const StepProfile& profile, const Peaks& peaks, double untimed);

/// The same figures; docs/benchmarks.md lists the keys.
nlohmann::json operators_json(const StepProfile& profile, const Peaks& peaks, double untimed);

}  // namespace gpt
