#include "base/fault.hpp"

#include <algorithm>

namespace gpt {
namespace {

struct Point {
  std::string_view name;
  std::vector<Program> programs;               // that pass it
  std::vector<std::string_view> actions = {};  // beside those of every point
};

/// Of bytes that are checked when they are read again, of other files, of those that are only read.
const std::vector<std::string_view> checked_writes = {"flip", "short", "full", "ioerror"};
const std::vector<std::string_view> writes = {"full", "ioerror"};
const std::vector<std::string_view> reads = {"ioerror"};

// docs/fault-injection.md says where each of them is.
const std::vector<Point>& points() {
  using enum Program;
  // One a line.
  // clang-format off
  static const std::vector<Point> table = {
      {"start", {training, bench}},
      {"preflight", {training}},
      {"preflight.sum", {training}},
      {"comm", {training}},
      {"comm.nccl", {training}},
      {"memory", {training}},
      {"memory.shared", {training}},
      {"comm.block", {training, bench}},
      {"step", {training}},
      {"device", {training}},
      {"backward", {training}},
      {"gradients", {training}, {"nan"}},
      {"update", {training}},
      {"weights", {training}, {"flip"}},
      {"eval", {training}},
      {"save", {training}},
      {"save.copy", {training, bench}},
      {"save.reserve", {training, bench}, writes},
      {"save.open", {training, bench}},
      {"save.write", {training, bench}, checked_writes},
      {"save.close", {training, bench}},
      {"save.sync", {training, bench}, writes},
      {"save.commit", {training, bench}, checked_writes},
      {"save.rename", {training, bench}, writes},
      {"save.verify", {training}, reads},
      {"save.retire", {training, bench}},
      {"ledger.write", {training}},
      {"folder.write", {training}, writes},
      {"lease.write", {training}, writes},
      {"lease.renew", {training}, writes},
      {"lease.takeover", {training}},
      {"log.write", {training}, {"short", "full", "ioerror"}},
      {"load", {training, sampling}, reads},
      {"sample", {training}},
      {"end", {training, bench}},
      {"bench.sum", {bench}},
      {"data.read", {training}, reads},
      {"shard.write", {data}, checked_writes},
      {"verdict", {training}, writes},
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

std::vector<std::string_view> fault_actions_at(std::string_view name) {
  const auto point = std::ranges::find(points(), name, &Point::name);
  return point == points().end() ? std::vector<std::string_view>{} : point->actions;
}

std::vector<std::string_view> fault_points_with(std::string_view action) {
  std::vector<std::string_view> names;
  for (const Point& point : points())
    if (std::ranges::find(point.actions, action) != point.actions.end()) names.push_back(point.name);
  return names;
}

}  // namespace gpt
