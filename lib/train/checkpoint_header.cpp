#include "base/error.hpp"
#include "base/hash.hpp"
#include "train/checkpoint_format.hpp"

#include <charconv>

namespace gpt {
namespace {

// Long enough for every tokenizer; what the file holds bounds it further.
constexpr int64_t longest_text = int64_t{1} << 30;

void write_ranges(H5File& file, const std::vector<Range>& ranges) {
  std::vector<uint64_t> edges;
  for (const Range& range : ranges) {
    edges.push_back(static_cast<uint64_t>(range.begin));
    edges.push_back(static_cast<uint64_t>(range.end));
  }
  file.create_dataset("skipped", H5Element::u64, std::ssize(edges))
      .write({0, std::ssize(edges)}, H5Element::u64, edges.data());
}

std::vector<Range> read_ranges(const H5File& file) {
  const H5Dataset dataset = file.open_dataset("skipped");
  std::vector<uint64_t> edges(static_cast<size_t>(dataset.size()));
  dataset.read({0, dataset.size()}, H5Element::u64, edges.data());
  validate(edges.size() % 2 == 0, ExitCode::damaged, "{}: {} edges make no ranges", dataset.where(),
           edges.size());
  std::vector<Range> ranges;
  for (size_t i = 0; i < edges.size(); i += 2) {
    validate(edges[i] <= edges[i + 1] && edges[i + 1] <= INT64_MAX, ExitCode::damaged,
             "{}: {} to {} is no range", dataset.where(), edges[i], edges[i + 1]);
    ranges.push_back({static_cast<int64_t>(edges[i]), static_cast<int64_t>(edges[i + 1])});
  }
  return ranges;
}

uint64_t read_hex(const H5File& file, const std::string& name) {
  const std::string text = file.string(name);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  validate(error == std::errc() && end == text.data() + text.size() && text.size() == 16, ExitCode::damaged,
           "{}@{}: '{}' is not 16 hexadecimal digits", file.path(), name, text);
  return value;
}

void write_model(H5File& file, const GptConfig& model) {
  file.set_attribute("layers", model.layers);
  file.set_attribute("heads", model.heads);
  file.set_attribute("width", model.width);
  file.set_attribute("context", model.context);
  file.set_attribute("vocabulary", model.vocabulary);
  file.set_attribute("bias", int64_t{model.bias});
  file.set_attribute("dropout", double{model.dropout});
}

/// Bounded by the size of the state before anything is built from it.
GptConfig read_model(const H5File& file) {
  const GptConfig model{.layers = file.integer("layers"),
                        .heads = file.integer("heads"),
                        .width = file.integer("width"),
                        .context = file.integer("context"),
                        .vocabulary = file.integer("vocabulary"),
                        .bias = file.integer("bias") != 0,
                        .dropout = static_cast<float>(file.real("dropout"))};
  try {
    validate_config(model);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: no model that can be: {}", file.path(), error.what()), ExitCode::damaged);
  }
  const H5Dataset params = file.open_dataset(state_path("params"));
  const int64_t matrices = 12 * model.layers * model.width * model.width;
  validate(matrices <= params.size() && Layout(model).size() == params.size(), ExitCode::damaged,
           "{}: {} elements do not fit a model of {} layers, width {}, context {}, vocabulary {}",
           params.where(), params.size(), model.layers, model.width, model.context, model.vocabulary);
  return model;
}

int64_t at_least(const H5File& file, const std::string& name, int64_t least) {
  const int64_t value = file.integer(name);
  validate(value >= least, ExitCode::damaged, "{}@{}: {} is less than {}", file.path(), name, value, least);
  return value;
}

/// Files of older programs do not have it, nor what would make it another step in most of them.
int64_t read_last_update(const H5File& file, int64_t step) {
  const int64_t update = file.find_integer("last_update").value_or(step);
  validate(update >= 0 && update <= step, ExitCode::damaged, "{}@last_update: {} is no step up to {}",
           file.path(), update, step);
  return update;
}

/// To a length that does not tell on how many ranks the file was written: its size is a function of the
/// model.
std::string padded(const std::string& text) {
  constexpr int64_t unit = 1024;
  return text +
         std::string(static_cast<size_t>(round_up(std::ssize(text) + 1, unit) - std::ssize(text)), ' ');
}

std::string trimmed(std::string text) {
  text.resize(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

void write_structure(H5File& file, const CheckpointHeader& header, const Layout& layout,
                     const std::vector<StateTensor>& state) {
  file.set_attribute("format", CheckpointHeader::format);
  file.set_attribute("step", header.step);
  file.set_attribute("last_update", header.last_update);
  file.set_attribute("cursor", header.cursor);
  file.set_attribute("run_id", to_hex(header.run_id));
  file.set_attribute("branch", header.branch);
  file.set_attribute("parent_step", header.parent_step);
  file.set_attribute("dataset_fingerprint", to_hex(header.dataset_fingerprint));
  write_model(file, header.model);
  write_ranges(file, header.skipped);
  const std::string comm_choice = padded(header.comm_choice);
  for (const auto& [name, text] :
       {std::pair<const char*, const std::string&>{"configuration", header.configuration},
        {"tokenizer", header.tokenizer},
        {"dataset_source", header.dataset_source},
        {"spikes", header.spikes},
        {"reduction", comm_choice}}) {
    validate(std::ssize(text) <= longest_text, "the {} has {} bytes, at most {} fit into a checkpoint", name,
             text.size(), longest_text);
    file.write_text(name, text);
  }

  file.make_group("parameters");
  for (const Parameter& parameter : layout.all())
    file.create_view(fmt::format("parameters/{}", parameter.name), parameter.shape,
                     fmt::format("/{}", state_path("params")), layout.size(), parameter.offset);
  file.make_group("checksums");
  for (const StateTensor& tensor : state)
    file.create_dataset(checksum_path(tensor.name), H5Element::u64, checkpoint_blocks(layout.size()));
  file.make_group("state");
  for (const StateTensor& tensor : state)
    file.create_dataset(state_path(tensor.name), H5Element::f32, layout.size());
}

CheckpointHeader parse_header(const H5File& file) {
  const int64_t format = file.integer("format");
  validate(format == CheckpointHeader::format, ExitCode::damaged,
           "checkpoint {} has format {}, this program reads {}: use the version that wrote it", file.path(),
           format, CheckpointHeader::format);
  CheckpointHeader header;
  header.step = at_least(file, "step", 0);
  header.last_update = read_last_update(file, header.step);
  header.cursor = at_least(file, "cursor", 0);
  header.skipped = read_ranges(file);
  header.run_id = read_hex(file, "run_id");
  header.branch = at_least(file, "branch", 0);
  header.parent_step = at_least(file, "parent_step", -1);
  header.model = read_model(file);
  header.configuration = file.read_text("configuration", longest_text);
  header.tokenizer = file.read_text("tokenizer", longest_text);
  header.dataset_fingerprint = read_hex(file, "dataset_fingerprint");
  header.dataset_source = file.read_text("dataset_source", longest_text);
  if (file.contains("spikes")) header.spikes = file.read_text("spikes", longest_text);
  if (file.contains("reduction")) header.comm_choice = trimmed(file.read_text("reduction", longest_text));
  return header;
}

}  // namespace gpt
