#include "base/error.hpp"
#include "base/hash.hpp"
#include "ckpt/commands.hpp"
#include "ckpt/json.hpp"
#include "ckpt/statistics.hpp"
#include "ckpt/table.hpp"
#include "standard_output.hpp"
#include "terminal_progress.hpp"
#include "text/printable.hpp"
#include "text/tokenizer.hpp"
#include "train/checkpoint_format.hpp"

#include <algorithm>
#include <fmt/ranges.h>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

namespace gpt {
namespace {

struct StateFigures {
  std::string name;
  ParameterStatistics figures;
};

struct Inspected {
  CommitRecord record;
  CheckpointHeader header;
  std::unique_ptr<Tokenizer> tokenizer;
  Layout layout;
  std::vector<StateFigures> states;  ///< those that were asked for
};

/// Reads the tensors of `states`, or all where there are none named.
Inspected read(const std::string& path, const std::vector<std::string>& wanted) {
  const OpenCheckpoint checkpoint = open_checkpoint(path);
  const CheckpointHeader header = header_of(checkpoint);
  Inspected result{.record = checkpoint.record,
                   .header = header,
                   .tokenizer = load_tokenizer(header.tokenizer),
                   .layout = Layout(header.model),
                   .states = {}};
  const std::vector<std::string> names = state_names(checkpoint);
  for (const std::string& name : wanted)
    validate(std::ranges::count(names, name) > 0, "--state {}: the checkpoint has {}", name,
             printable_line(fmt::format("{}", fmt::join(names, ", "))));
  const std::vector<std::string>& chosen = wanted.empty() ? names : wanted;
  const int64_t blocks = std::ssize(chosen) * checkpoint_blocks(result.layout.size());
  int64_t done = 0;
  TerminalProgress bar;
  for (const std::string& name : chosen) {
    StateFigures state{name, ParameterStatistics(result.layout)};
    StateBlocks tensor(checkpoint, name, result.layout.size());
    for (int64_t number = 0; number < tensor.count(); ++number) {
      const StateBlocks::Block block = tensor.read_whole(number);
      state.figures.add(block.elements,
                        {block.data.data<float>(), static_cast<size_t>(block.elements.size())});
      bar("reading", ++done, blocks);
    }
    result.states.push_back(std::move(state));
  }
  return result;
}

std::string shape_text(const Parameter& parameter) {
  return fmt::format("({})", fmt::join(parameter.shape, ", "));
}

std::vector<std::string> row_of(const std::string& name, const std::string& shape,
                                const Statistics& figures) {
  return {name,
          shape,
          fmt::format("{}", figures.count()),
          fmt::format("{:.4g}", figures.least()),
          fmt::format("{:.4g}", figures.greatest()),
          fmt::format("{:.4g}", figures.mean()),
          fmt::format("{:.4g}", figures.root_mean_square()),
          fmt::format("{}", figures.not_finite())};
}

std::string format_state(const StateFigures& state, const Layout& layout) {
  std::vector<std::vector<std::string>> rows{{"state/" + printable_line(state.name), "shape", "elements",
                                              "min", "max", "mean", "rms", "not finite"}};
  for (size_t i = 0; i < layout.all().size(); ++i)
    rows.push_back(row_of(layout.all()[i].name, shape_text(layout.all()[i]), state.figures.each()[i]));
  rows.push_back(row_of("all", "", state.figures.all()));
  return "\n" + format_table(rows, {2, 3, 4, 5, 6, 7});
}

std::string skipped_text(const std::vector<Range>& skipped) {
  std::string text;
  int64_t windows = 0;
  for (const Range& range : skipped) {
    text += fmt::format(" [{}, {})", range.begin, range.end);
    windows += range.size();
  }
  return skipped.empty() ? "none" : fmt::format("{} windows of every lane:{}", windows, text);
}

std::string format_header(const std::string& path, const Inspected& found) {
  const CheckpointHeader& header = found.header;
  const GptConfig& model = header.model;
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<13}  {}\n", name, value);
  };
  line("file", path);
  line("bytes", fmt::format("{}, digest {}", found.record.file_size, to_hex(found.record.digest)));
  line("step", fmt::format("{}", header.step));
  line("run",
       fmt::format("{}, branch {}, begun {}", to_hex(header.run_id), header.branch,
                   header.parent_step < 0 ? "from nothing" : fmt::format("at step {}", header.parent_step)));
  line("model", fmt::format("{} layers, {} heads, width {}, context {}, vocabulary {}, bias {}, dropout {}",
                            model.layers, model.heads, model.width, model.context, model.vocabulary,
                            model.bias, model.dropout));
  line("parameters", fmt::format("{}", found.layout.parameters()));
  line("tokenizer", fmt::format("{}, {} tokens, fingerprint {}", found.tokenizer->kind(),
                                found.tokenizer->vocabulary(), to_hex(found.tokenizer->fingerprint())));
  line("dataset", fmt::format("fingerprint {}", to_hex(header.dataset_fingerprint)));
  line("made of", printable_line(header.dataset_source));
  line("cursor", fmt::format("{} windows of every lane", header.cursor));
  line("skipped", skipped_text(header.skipped));
  line("reduction", header.comm_choice.empty() ? "not said" : printable_line(header.comm_choice));
  line("spikes", header.spikes.empty() ? "no detector" : printable_line(header.spikes));
  return text + "\nconfiguration\n" + printable(header.configuration);
}

nlohmann::json json_of(const std::string& name, const std::vector<int64_t>& shape,
                       const Statistics& figures) {
  return {{"name", name},
          {"shape", shape},
          {"elements", figures.count()},
          {"min", figures.least()},
          {"max", figures.greatest()},
          {"mean", figures.mean()},
          {"rms", figures.root_mean_square()},
          {"not_finite", figures.not_finite()}};
}

nlohmann::json json_of(const StateFigures& state, const Layout& layout) {
  nlohmann::json parameters = nlohmann::json::array();
  for (size_t i = 0; i < layout.all().size(); ++i)
    parameters.push_back(json_of(layout.all()[i].name, layout.all()[i].shape, state.figures.each()[i]));
  nlohmann::json json;
  json["name"] = state.name;
  json["parameters"] = std::move(parameters);
  return json;
}

nlohmann::json json_of(const std::string& path, const Inspected& found) {
  const CheckpointHeader& header = found.header;
  const GptConfig& model = header.model;
  nlohmann::json skipped = nlohmann::json::array();
  for (const Range& range : header.skipped) skipped.push_back(std::vector<int64_t>{range.begin, range.end});
  nlohmann::json states = nlohmann::json::array();
  for (const StateFigures& state : found.states) states.push_back(json_of(state, found.layout));
  return {{"file", path},
          {"bytes", found.record.file_size},
          {"digest", to_hex(found.record.digest)},
          {"step", header.step},
          {"cursor", header.cursor},
          {"skipped", std::move(skipped)},
          {"run_id", to_hex(header.run_id)},
          {"branch", header.branch},
          {"parent_step", header.parent_step},
          {"model",
           {{"layers", model.layers},
            {"heads", model.heads},
            {"width", model.width},
            {"context", model.context},
            {"vocabulary", model.vocabulary},
            {"bias", model.bias},
            {"dropout", model.dropout}}},
          {"parameters", found.layout.parameters()},
          {"configuration", header.configuration},
          {"tokenizer",
           {{"kind", found.tokenizer->kind()},
            {"vocabulary", found.tokenizer->vocabulary()},
            {"fingerprint", to_hex(found.tokenizer->fingerprint())}}},
          {"dataset_fingerprint", to_hex(header.dataset_fingerprint)},
          {"dataset_source", header.dataset_source},
          {"reduction", header.comm_choice},
          {"spikes", header.spikes},
          {"state", std::move(states)}};
}

}  // namespace

ExitCode inspect_file(const Arguments& arguments) {
  std::string file;
  std::vector<std::string> states;
  bool json = false;
  CommandLine line("gpt_ckpt inspect FILE: what a checkpoint holds, and figures of every parameter", "file");
  line.group("Options")("file", required(file, "FILE"), "the checkpoint")(
      "state", list(states, "NAME..."), "tensors of the state to show (default: all): params, m, v")(
      "json", option(json, "true|false"), "one JSON object instead of tables");
  if (!parse(line, arguments)) return ExitCode::finished;
  const Inspected found = read(file, states);
  if (json) {
    print_json(json_of(file, found));
    return ExitCode::finished;
  }
  print("{}", format_header(file, found));
  for (const StateFigures& state : found.states) print("{}", format_state(state, found.layout));
  return ExitCode::finished;
}

}  // namespace gpt
