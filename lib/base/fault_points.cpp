#include "base/fault.hpp"

#include <algorithm>

namespace gpt {
namespace {

struct Point {
  std::string_view name;
  std::vector<Program> programs;  // that pass it
};

// docs/fault-injection.md says where each of them is.
const std::vector<Point>& points() {
  using enum Program;
  // One a line.
  // clang-format off
  static const std::vector<Point> table = {
      {"start", {training, bench}},
      {"comm", {training}},
      {"comm.nccl", {training}},
      {"memory", {training}},
      {"memory.shared", {training}},
      {"comm.block", {training, bench}},
      {"step", {training}},
      {"device", {training}},
      {"backward", {training}},
      {"gradients", {training}},
      {"update", {training}},
      {"eval", {training}},
      {"save", {training}},
      {"save.open", {training}},
      {"save.write", {training}},
      {"save.close", {training}},
      {"save.commit", {training}},
      {"save.rename", {training}},
      {"save.verify", {training}},
      {"save.retire", {training}},
      {"lease.renew", {training}},
      {"lease.takeover", {training}},
      {"load", {training, sampling}},
      {"sample", {training}},
      {"end", {training, bench}},
      {"bench.sum", {bench}},
      {"data.read", {training}},
      {"verdict", {training}},
  };
  // clang-format on
  return table;
}

}  // namespace

std::vector<std::string_view> fault_points_of(Program program) {
  std::vector<std::string_view> names;
  for (const Point& point : points())
    if (std::ranges::find(point.programs, program) != point.programs.end()) names.push_back(point.name);
  return names;
}

}  // namespace gpt
