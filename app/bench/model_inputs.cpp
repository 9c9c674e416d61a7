#include "bench/model_inputs.hpp"

#include "base/error.hpp"
#include "bench/plan_name.hpp"

#include <algorithm>
#include <fmt/ranges.h>
#include <fstream>
#include <nlohmann/json.hpp>

namespace gpt {
namespace {

using nlohmann::json;

/// Calls read(contents); what is not there or of another type is an error that names the file.
template <class Read>
auto with_json(const std::string& path, const char* benchmark, Read read) {
  std::ifstream file(path);
  validate(file.is_open(), "{}: cannot be read", path);
  try {
    const json contents = json::parse(file);
    const auto made_by = contents.at("benchmark").get<std::string>();
    validate(made_by == benchmark, "this file is of gpt_bench {}: give one of gpt_bench {} --json",
             made_by == "memory" ? "comm --memory true" : made_by, benchmark);
    return read(contents);
  } catch (const json::exception&) {
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", path, error.what()), ExitCode::usage);
  }
  throw Error(fmt::format("{} is no file of gpt_bench {} --json", path, benchmark), ExitCode::usage);
}

double positive(const json& value) {
  const auto number = value.get<double>();
  validate(number > 0.0, "{} stands where a positive number is needed", number);
  return number;
}

DType wire_of(const json& name) {
  for (const DType dtype : {DType::f32, DType::bf16})
    if (name == name_of(dtype)) return dtype;
  throw Error("sums travel as f32 or bf16", ExitCode::usage);
}

Cluster shape_of(const json& contents) {
  const auto ranks = contents.at("ranks_per_node").get<std::vector<int64_t>>();
  validate(
      !ranks.empty() && ranks.front() >= 1 && std::ranges::count(ranks, ranks.front()) == std::ssize(ranks),
      "the model knows equal nodes only: measure as many ranks on each");
  return {.nodes = std::ssize(ranks), .ranks_per_node = ranks.front(), .intra = {}, .inter = {}};
}

json find_implementation(const json& contents, const std::string& name) {
  const auto on_one_node = [&] {
    return std::ssize(contents.at("ranks_per_node")) == 1 ? name_on_one_node(name) : name;
  };
  std::vector<std::string> names;
  for (const json& one : contents.at("implementations")) {
    names.push_back(one.at("name").get<std::string>());
    if (name.empty() ? one.at("what") == "hierarchical"
                     : names.back() == name || names.back() == on_one_node())
      return one;
  }
  throw Error(fmt::format("measured no implementation {}: choose with --implementation of those it has: {}",
                          name.empty() ? "hierarchical" : name, fmt::join(names, ", ")),
              ExitCode::usage);
}

StepShape step_shape(const json& point, int64_t bucket_bytes) {
  StepShape shape{.gradients = {}, .bucket_bytes = bucket_bytes};
  const auto bytes = point.at("section_bytes").get<std::vector<int64_t>>();
  auto ready = point.at("ready_s").get<std::vector<double>>();
  validate(bytes.size() == ready.size() && bytes.size() >= 2,
           "section_bytes and ready_s do not fit together");
  std::ranges::sort(ready);
  const double without = positive(point.at("without_communication_s"));
  const double backward = positive(point.at("backward_end_s"));
  const std::vector<int64_t> order = backward_order(std::ssize(bytes));
  std::vector<Range> elements(bytes.size());  // by section
  for (size_t i = 0; i < bytes.size(); ++i)
    elements[static_cast<size_t>(order[i])].end = bytes[i] / size_of(DType::f32);
  for (size_t section = 1; section < elements.size(); ++section)
    elements[section] = shifted(elements[section], elements[section - 1].end);
  for (size_t i = 0; i < bytes.size(); ++i)
    shape.gradients.push_back({elements[static_cast<size_t>(order[i])], ready[i]});
  shape.compute = std::min(backward, without);
  shape.optimizer = without - shape.compute;
  shape.thread = point.at("thread_cpu_s").get<double>();
  return shape;
}

}  // namespace

MeasuredSums read_comm_json(const std::string& path, const std::string& implementation) {
  return with_json(path, "comm", [&](const json& contents) {
    validate(contents.at("collective") == "all_reduce" && contents.at("dtype") == "f32",
             "the model wants all_reduce of f32");
    const json chosen = find_implementation(contents, implementation);
    MeasuredSums measured{.shape = shape_of(contents), .plan = {}, .sums = {}};
    validate(chosen.at("what") != "tree",
             "the model knows no sums along a tree: name another --implementation");
    measured.plan.reduction = chosen.at("what") == "hierarchical" ? Reduction::hierarchical : Reduction::flat;
    if (const auto inter = chosen.at("inter").get<std::string>(); !inter.empty())
      measured.plan.inter = inter_named(inter);
    measured.plan.wire_node = wire_of(chosen.at("wire_node"));
    measured.plan.wire_peers = wire_of(chosen.at("wire_peers"));
    if (measured.plan.reduction == Reduction::hierarchical) {
      measured.plan.block_bytes = static_cast<int64_t>(positive(chosen.at("block_bytes")));
      measured.plan.window = static_cast<int64_t>(positive(chosen.at("window")));
    }
    for (const json& row : contents.at("results"))
      if (row.at("implementation") == chosen.at("name") && row.at("in_place").get<bool>())
        measured.sums.push_back({positive(row.at("bytes")), positive(row.at("median_s"))});
    validate(!measured.sums.empty(), "holds no sums in place: measure with --place in or both");
    return measured;
  });
}

FittedLinks fit_links(const std::vector<MeasuredSums>& files, const Link& intra) {
  FittedLinks fitted;
  const auto fit = [&](bool several_nodes, double& worst) -> std::optional<Link> {
    std::vector<CostSample> samples;
    for (const MeasuredSums& file : files) {
      if ((file.shape.nodes > 1) != several_nodes) continue;
      Cluster cluster = file.shape;
      cluster.intra = fitted.intra.value_or(intra);
      for (const auto& [bytes, seconds] : file.sums) {
        const HopTerms terms = all_reduce_terms(cluster, file.plan, bytes);
        samples.push_back(
            {.terms = several_nodes ? terms.inter : terms.intra,
             .fixed =
                 several_nodes ? terms.intra.seconds(cluster.intra) / static_cast<double>(terms.blocks) : 0.0,
             .seconds = seconds});
      }
    }
    if (samples.empty()) return std::nullopt;
    const Link link = fit_link(samples);
    worst = worst_error(samples, link);
    return link;
  };
  fitted.intra = fit(false, fitted.worst_intra);
  fitted.inter = fit(true, fitted.worst_inter);
  return fitted;
}

std::map<int64_t, MeasuredStep> read_scaling_json(const std::string& path) {
  return with_json(path, "scaling", [&](const json& contents) {
    std::map<int64_t, MeasuredStep> steps;
    for (const json& point : contents.at("points")) {
      const auto ranks = point.at("ranks").get<int64_t>();
      if (point.at("kind") != "weak" || ranks < 2) continue;
      steps[ranks] = {.shape = step_shape(point, static_cast<int64_t>(positive(contents.at("bucket_bytes")))),
                      .step = positive(point.at("step_s")),
                      .tokens = point.at("tokens_per_step").get<int64_t>() / ranks};
    }
    validate(!steps.empty(), "holds no weak scaling on 2 ranks or more");
    return steps;
  });
}

}  // namespace gpt
