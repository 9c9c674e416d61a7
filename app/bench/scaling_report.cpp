#include "bench/scaling.hpp"
#include "model/precision.hpp"

#include <algorithm>
#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/io.hpp>
#include <boost/process/pipe.hpp>
#include <boost/process/system.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace gpt {
namespace {

namespace bp = boost::process;

double speed(const ScalingPoint& point) {
  return static_cast<double>(point.tokens) / point.overlapped.median();
}

const ScalingPoint& first_of(const std::vector<ScalingPoint>& points, ScalingKind kind) {
  return *std::ranges::find(points, kind, &ScalingPoint::kind);
}

/// A line a rank count, as wide as its share of the fastest.
void print_bars(const std::vector<ScalingPoint>& points, ScalingKind kind) {
  constexpr double width = 50.0;
  double fastest = 0.0;
  for (const ScalingPoint& point : points)
    if (point.kind == kind)
      fastest = std::max(fastest, speed(point) / efficiency(point, first_of(points, kind)));
  for (const ScalingPoint& point : points) {
    if (point.kind != kind) continue;
    const double ideal = speed(point) / efficiency(point, first_of(points, kind));
    const auto full = static_cast<size_t>(speed(point) / fastest * width);
    const auto missing =
        static_cast<size_t>(std::max(0.0, ideal / fastest * width - static_cast<double>(full)));
    fmt::print("  {:>5} |{}{} {:.0f} tokens/s\n", point.ranks, std::string(full, '#'),
               std::string(missing, '.'), speed(point));
  }
}

void print_point(const ScalingPoint& point, const ScalingPoint& first) {
  fmt::print("  {:>5} {:>5} {:>9.1f} {:>10.0f} {:>9.1f} %", point.ranks, point.nodes,
             point.overlapped.median() * 1e3, speed(point), 100.0 * efficiency(point, first));
  if (point.ranks == 1) {
    fmt::print("\n");
    return;
  }
  fmt::print(" {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f}", point.none.median() * 1e3,
             point.afterwards.median() * 1e3, point.communication() * 1e3, point.exposed() * 1e3,
             point.thread.median() * 1e3, point.hideable() * 1e3);
  if (const std::optional<double> hidden = point.hidden_share())
    fmt::print(" {:>7.0f} %\n", 100.0 * *hidden);
  else
    fmt::print(" {:>9}\n", "-");
}

/// Two columns, ranks and tokens per second, ended as gnuplot wants inline data.
std::string columns(const std::vector<ScalingPoint>& points, ScalingKind kind, bool ideal) {
  std::string text;
  for (const ScalingPoint& point : points)
    if (point.kind == kind)
      text += fmt::format("{} {}\n", point.ranks,
                          speed(point) / (ideal ? efficiency(point, first_of(points, kind)) : 1.0));
  return text;
}

}  // namespace

const char* name_of(ScalingKind kind) { return kind == ScalingKind::weak ? "weak" : "strong"; }

void print_scaling(const ScalingBench& bench, const std::vector<ScalingPoint>& points) {
  for (const ScalingKind kind : bench.kinds) {
    const bool weak = kind == ScalingKind::weak;
    fmt::print("{} scaling: {}, {} x {} {}, {}, {} thread{} a rank, {}, buckets of {:.1f} MiB\n",
               name_of(kind), bench.preset, weak ? bench.micro_batch : bench.global_batch,
               bench.config.context, weak ? "a rank" : "in all", name_of_precision(bench.type), bench.threads,
               bench.threads == 1 ? "" : "s", bench.plan_name,
               static_cast<double>(bench.bucket_bytes) / 0x1p20);
    fmt::print("  {:>5} {:>5} {:>9} {:>10} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "ranks",
               "nodes", "step", "tokens/s", "efficiency", "without", "after", "comm", "exposed", "thread",
               "hideable", "hidden");
    fmt::print("  {:>5} {:>5} {:>9} {:>10} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "", "", "ms",
               "", "", "ms", "ms", "ms", "ms", "ms", "ms", "");
    for (const ScalingPoint& point : points)
      if (point.kind == kind) print_point(point, first_of(points, kind));
    print_bars(points, kind);
  }
}

nlohmann::json scaling_json(const ScalingBench& bench, const std::vector<ScalingPoint>& points) {
  nlohmann::json rows = nlohmann::json::array();
  for (const ScalingPoint& point : points) {
    nlohmann::json row = {{"kind", name_of(point.kind)},
                          {"ranks", point.ranks},
                          {"nodes", point.nodes},
                          {"tokens_per_step", point.tokens},
                          {"step_s", point.overlapped.median()},
                          {"steps_s", point.overlapped.all},
                          {"tokens_per_s", speed(point)},
                          {"efficiency", efficiency(point, first_of(points, point.kind))},
                          {"grad_norm", point.grad_norm}};
    if (point.ranks > 1) {
      row["without_communication_s"] = point.none.median();
      row["after_backward_s"] = point.afterwards.median();
      row["communication_s"] = point.communication();
      row["exposed_s"] = point.exposed();
      row["least_exposed_s"] = point.least_exposed();
      row["thread_cpu_s"] = point.thread.median();
      row["hideable_s"] = point.hideable();
      const std::optional<double> hidden = point.hidden_share();
      row["hidden_share"] = hidden ? nlohmann::json(*hidden) : nlohmann::json();
      row["backward_end_s"] = point.backward;
      row["ready_s"] = point.ready;
      row["section_bytes"] = point.section_bytes;
    }
    rows.push_back(row);
  }
  return {{"benchmark", "scaling"},
          {"preset", bench.preset},
          {"context", bench.config.context},
          {"vocabulary", bench.config.vocabulary},
          {"micro_batch", bench.micro_batch},
          {"global_batch", bench.global_batch},
          {"threads", bench.threads},
          {"precision", name_of_precision(bench.type)},
          {"plan", bench.plan_name},
          {"bucket_bytes", bench.bucket_bytes},
          {"points", rows}};
}

void require_gnuplot(const std::string& path) {
  const std::vector<std::string> probe = {"gnuplot", "--version"};
  validate(bp::system("/usr/bin/env", bp::args(probe), bp::std_out > bp::null, bp::std_err > bp::null) == 0,
           "--plot {}: gnuplot is missing: install it, or leave --plot out", path);
}

void plot_scaling(const std::string& path, const std::vector<ScalingPoint>& points) {
  std::string script = fmt::format(
      "set terminal svg size 860,480 font 'sans-serif,13' background rgb 'white'\nset output '{}'\n"
      "set xlabel 'ranks'\nset ylabel 'tokens per second'\nset key top left\nset grid linecolor rgb "
      "'#dddddd'\n"
      "set logscale xy 2\n",
      path);
  std::string curves, data;
  for (const ScalingKind kind : {ScalingKind::weak, ScalingKind::strong}) {
    if (std::ranges::find(points, kind, &ScalingPoint::kind) == points.end()) continue;
    const char* const color = kind == ScalingKind::weak ? "#3060a0" : "#c03030";
    script += fmt::format("${0} << EOD\n{1}EOD\n$ideal_{0} << EOD\n{2}EOD\n", name_of(kind),
                          columns(points, kind, false), columns(points, kind, true));
    curves += fmt::format(
        "{0}${1} with linespoints linewidth 2 pointtype 7 linecolor rgb '{2}' title '{1}', $ideal_{1} with "
        "lines "
        "dashtype 2 linecolor rgb '{2}' title '{1}, all ranks as fast as one'",
        curves.empty() ? "" : ", ", name_of(kind), color);
  }
  script += fmt::format("plot {}\n", curves);
  bp::opstream commands;
  bp::child child("/usr/bin/env", bp::args({"gnuplot"}), bp::std_in < commands);
  commands << script << std::flush;
  commands.pipe().close();
  child.wait();
  validate(child.exit_code() == 0, ExitCode::failed, "--plot {}: gnuplot failed: can that file be written?",
           path);
}

}  // namespace gpt
