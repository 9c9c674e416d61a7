#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/hash.hpp"
#include "base/notice.hpp"
#include "base/stopwatch.hpp"
#include "command_line.hpp"
#include "data/import_tokens.hpp"
#include "data/inspect.hpp"
#include "data/pack.hpp"
#include "data/reshard.hpp"
#include "data/synth.hpp"
#include "data/verify.hpp"
#include "h5/h5.hpp"
#include "option_values.hpp"
#include "standard_output.hpp"
#include "terminal_progress.hpp"

#include <algorithm>
#include <boost/program_options.hpp>
#include <boost/version.hpp>
#include <ctime>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpt {
namespace {

namespace po = boost::program_options;

constexpr const char* default_dataset = "datasets/demo";

constexpr const char* overview = R"(gpt_data makes, changes and examines datasets for gpt_mpi.

  gpt_data pack --input FILE|FOLDER... --out FOLDER   text files to a dataset
  gpt_data synth --out FOLDER                         stories whose lowest possible loss is known
  gpt_data import --input FILE|FOLDER... --out FOLDER token files of llm.c or nanoGPT to a dataset
  gpt_data reshard --data FOLDER --out FOLDER         the same data in another number of shards
  gpt_data inspect FOLDER                             what a dataset holds
  gpt_data verify FOLDER                              read it all and check it

gpt_data COMMAND --help lists the options of a command; gpt_data --version the versions of libraries.
)";

/// False if help was wanted, and printed.
bool parse(CommandLine& line, const Arguments& arguments) {
  const std::optional<std::string> help = line.parse(arguments);
  if (help) print("{}", *help);
  return !help;
}

std::string count_shards(const std::vector<ShardInfo>& shards) {
  int64_t tokens = 0;
  for (const ShardInfo& shard : shards) tokens += shard.tokens;
  return fmt::format("{} tokens in {} shard{}", tokens, shards.size(), shards.size() == 1 ? "" : "s");
}

/// A window of a short context and its last target: shards below hold nothing to train on or to validate
/// with.
constexpr int64_t least_useful_tokens = 65;

void warn_of_short_shards(const Manifest& manifest) {
  for (const auto& [name, shards] : {std::pair{"training", &manifest.train}, {"validation", &manifest.val}}) {
    if (shards->empty()) continue;
    const int64_t least = std::ranges::min(*shards, {}, &ShardInfo::tokens).tokens;
    if (least < least_useful_tokens)
      gpt::notice(
          fmt::format("gpt_data: warning: a {} shard has only {} tokens, and a window of context T needs T + "
                      "1: use fewer "
                      "shards ('gpt_data reshard'), or more text",
                      name, least));
  }
}

void report(const std::string& folder, const Manifest& manifest) {
  print("{}: training {}, validation {}, vocabulary {}, fingerprint {}\n", folder,
        count_shards(manifest.train), count_shards(manifest.val), manifest.vocabulary,
        to_hex(manifest.fingerprint()));
  if (manifest.entropy) {
    print("No model's loss can be lower than {:.6f} nats per token.\n", *manifest.entropy);
  }
  warn_of_short_shards(manifest);
}

/// How fast text became tokens: with what the disk took, and the computing alone.
class Speed {
public:
  void report(int64_t text_bytes) const {
    const double seconds = watch_.seconds();
    const double computing = static_cast<double>(std::clock() - cpu_start_) / CLOCKS_PER_SEC;
    const double megabytes = static_cast<double>(text_bytes) * 1e-6;
    gpt::notice(fmt::format("gpt_data: {} MB of text in {:.2f} s, {} MB/s; {:.2f} s of a core, {} MB/s",
                            brief(megabytes), seconds, brief(megabytes / seconds), computing,
                            brief(megabytes / std::max(computing, 1e-6))));
  }

private:
  static std::string brief(double value) {
    return value < 1 ? fmt::format("{:.3f}", value) : fmt::format("{:.1f}", value);
  }

  Stopwatch watch_;
  std::clock_t cpu_start_ = std::clock();
};

template <class Job>
auto with_progress(Job job) {
  TerminalProgress bar;
  return job([&](std::string_view phase, int64_t done, int64_t total) { bar(phase, done, total); });
}

ExitCode run_pack(const Arguments& arguments) {
  PackOptions options;
  std::string seed = "0";
  CommandLine line("gpt_data pack --input FILE|FOLDER... --out FOLDER: text files to a dataset", "input");
  line.group("Input")("input", list(options.inputs, "FILE|FOLDER..."),
                      "text files, or folders of which every file is taken")(
      "document-separator", option(options.separator, "TEXT"),
      "ends a document inside a file (\\n, \\t, \\\\ stand for line feed, tab, backslash); without one, "
      "every file is a document")(
      "tokenizer", option(options.tokenizer, "KIND"),
      "bytes: any file, 256 tokens; chars: UTF-8 text, a token for every character that occurs");
  line.group("Output")("out", required(options.out, "FOLDER"), "the dataset's folder, new or empty")(
      "overwrite", option(options.overwrite, "true|false"), "replace a dataset that is there")(
      "shards", option(options.shards, "N"), "training shards; the global batch must be a multiple")(
      "val-fraction", option(options.val_fraction, "F"), "part of the tokens that is kept for validation")(
      "val-shards", option(options.val_shards, "N"), "validation shards")("seed", option(seed, "N"),
                                                                          "order of the documents");
  if (!parse(line, arguments)) return ExitCode::finished;
  options.seed = parse_seed(seed);
  options.separator = unescape("document-separator", options.separator);
  options.notice = [](const std::string& text) { gpt::notice(fmt::format("gpt_data: {}", text)); };
  const Speed speed;
  const PackReport done = with_progress([&](const Progress& progress) { return pack(options, progress); });
  speed.report(done.text_bytes);
  report(options.out, done.manifest);
  return ExitCode::finished;
}

ExitCode run_synth(const Arguments& arguments) {
  SynthOptions options;
  std::string seed = "0";
  std::optional<int64_t> val_tokens;
  CommandLine line("gpt_data synth --out FOLDER: a dataset of stories from a small grammar", "out");
  line.group("Text")("tokens", option(options.tokens, "N"), "training tokens")(
      "val-tokens",
      po::value<int64_t>()->value_name("N")->notifier([&](int64_t given) { val_tokens = given; }),
      "validation tokens (default: a tenth of --tokens)")("tokenizer", option(options.tokenizer, "KIND"),
                                                          "chars or bytes")("seed", option(seed, "N"),
                                                                            "which stories");
  line.group("Output")("out", required(options.out, "FOLDER"), "the dataset's folder, new or empty")(
      "overwrite", option(options.overwrite, "true|false"), "replace a dataset that is there")(
      "shards", option(options.shards, "N"), "training shards; the global batch must be a multiple")(
      "val-shards", option(options.val_shards, "N"), "validation shards");
  if (!parse(line, arguments)) return ExitCode::finished;
  options.seed = parse_seed(seed);
  if (val_tokens) {
    validate(*val_tokens >= 0, "--val-tokens {}: use 0 (no validation part) or more", *val_tokens);
    options.val_tokens = *val_tokens;
  }
  report(options.out, with_progress([&](const Progress& progress) { return synth(options, progress); }));
  return ExitCode::finished;
}

ExitCode run_import(const Arguments& arguments) {
  ImportOptions options;
  std::string format = "auto";
  CommandLine line("gpt_data import --input FILE|FOLDER... --out FOLDER: token files to a dataset", "input");
  line.group("Input")(
      "input", list(options.inputs, "FILE|FOLDER..."),
      "files of training tokens; or one folder: *.bin, those with 'val' in the name for validation, and "
      "meta.pkl")("val-input", list(options.val_inputs, "FILE..."), "files of validation tokens")(
      "format", option(format, "KIND"), "llmc, nanogpt or auto");
  line.group("Vocabulary (one of these)")("vocab", po::value<int64_t>(&options.vocabulary)->value_name("N"),
                                          "number of tokens, without their texts (default: GPT-2's 50257)")(
      "meta", option(options.meta, "FILE"), "nanoGPT's meta.pkl")(
      "alphabet", option(options.alphabet, "FILE"),
      "UTF-8 file with one character for each id, in their order");
  line.group("Output")("out", required(options.out, "FOLDER"), "the dataset's folder, new or empty")(
      "overwrite", option(options.overwrite, "true|false"), "replace a dataset that is there")(
      "shards", option(options.shards, "N"), "training shards; the global batch must be a multiple")(
      "val-fraction", option(options.val_fraction, "F"),
      "part kept for validation if no files are given for it")("val-shards", option(options.val_shards, "N"),
                                                               "validation shards");
  if (!parse(line, arguments)) return ExitCode::finished;
  const std::map<std::string, TokenFormat> formats{
      {"auto", TokenFormat::automatic}, {"llmc", TokenFormat::llmc}, {"nanogpt", TokenFormat::nanogpt}};
  validate(formats.contains(format), "--format {}: use auto, llmc or nanogpt", format);
  options.format = formats.at(format);
  report(options.out,
         with_progress([&](const Progress& progress) { return import_tokens(options, progress); }));
  return ExitCode::finished;
}

ExitCode run_reshard(const Arguments& arguments) {
  ReshardOptions options;
  options.data = default_dataset;
  CommandLine line(
      "gpt_data reshard --data FOLDER --out FOLDER --shards N: the same data in other shards\n"
      "Runs begun on the old cut cannot go on with the new one: its fingerprint is another.",
      "data");
  line.group("Options")("data", option(options.data, "FOLDER"), "the dataset")(
      "out", required(options.out, "FOLDER"), "the new dataset's folder, new or empty")(
      "overwrite", option(options.overwrite, "true|false"), "replace a dataset that is there")(
      "shards", option(options.shards, "N"), "training shards; validation stays as it is");
  if (!parse(line, arguments)) return ExitCode::finished;
  report(options.out, with_progress([&](const Progress& progress) { return reshard(options, progress); }));
  return ExitCode::finished;
}

ExitCode run_inspect(const Arguments& arguments) {
  std::string data = default_dataset;
  int64_t context = 256;
  int64_t excerpt = 200;
  CommandLine line("gpt_data inspect FOLDER: what a dataset holds", "data");
  line.group("Options")("data", option(data, "FOLDER"), "the dataset")(
      "context", option(context, "N"), "window length to count windows for")("excerpt", option(excerpt, "N"),
                                                                             "tokens to show as text");
  if (!parse(line, arguments)) return ExitCode::finished;
  print("{}", describe_dataset(data, context, excerpt));
  return ExitCode::finished;
}

ExitCode run_verify(const Arguments& arguments) {
  std::string data = default_dataset;
  CommandLine line("gpt_data verify FOLDER: read a dataset and check all of it", "data");
  line.group("Options")("data", option(data, "FOLDER"), "the dataset");
  if (!parse(line, arguments)) return ExitCode::finished;
  VerifyReport found;
  {
    TerminalProgress bar;
    found =
        verify(data, [&](std::string_view phase, int64_t done, int64_t total) { bar(phase, done, total); });
  }
  if (found.problems.empty()) {
    print("{} is whole: {} shards, {} tokens\n", data, found.shards, found.tokens);
    return ExitCode::finished;
  }
  std::string text =
      fmt::format("{} has {} problem{}", data, found.problems.size(), found.problems.size() == 1 ? "" : "s");
  for (const std::string& problem : found.problems) text += "\n  " + problem;
  throw Error(text, ExitCode::damaged);
}

void print_version() {
  print("gpt_data {}\nHDF5 {} (compiled with {})\nfmt {}.{}.{}\nBoost {}.{}.{}\n", GPT_VERSION,
        hdf5_loaded_version(), hdf5_compiled_version(), FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
        FMT_VERSION % 100, BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100);
}

ExitCode run(const Arguments& arguments) {
  const std::map<std::string, ExitCode (*)(const Arguments&)> commands{
      {"pack", run_pack},       {"synth", run_synth},     {"import", run_import},
      {"reshard", run_reshard}, {"inspect", run_inspect}, {"verify", run_verify}};
  validate(!arguments.empty(),
           "no command: use pack, synth, import, reshard, inspect or verify; --help explains them");
  const std::string& first = arguments.front();
  if (first == "--help" || first == "-h" || first == "help") {
    print("{}", overview);
    return ExitCode::finished;
  }
  if (first == "--version") {
    print_version();
    return ExitCode::finished;
  }
  const auto command = commands.find(first);
  validate(command != commands.end(),
           "unknown command '{}': use pack, synth, import, reshard, inspect or verify; --help explains them",
           first);
  return command->second({arguments.begin() + 1, arguments.end()});
}

int report_failure(const std::string& message, ExitCode code) {
  gpt::notice(fmt::format("gpt_data: {}", message));
  return static_cast<int>(code);
}

}  // namespace
}  // namespace gpt

int main(int argc, char** argv) {
  using gpt::ExitCode;
  try {
    gpt::configure_faults(0, gpt::Program::data);
    const ExitCode code = gpt::run({argv + std::min(argc, 1), argv + argc});
    gpt::check_output();
    return static_cast<int>(code);
  } catch (const gpt::Error& error) {
    return gpt::report_failure(error.what(), error.code());
  } catch (const boost::program_options::error& error) {
    return gpt::report_failure(fmt::format("{} (gpt_data COMMAND --help lists the options)", error.what()),
                               ExitCode::usage);
  } catch (const std::exception& error) {
    return gpt::report_failure(error.what(), ExitCode::failed);
  }
}
