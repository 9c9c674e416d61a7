#include "base/error.hpp"
#include "base/notice.hpp"
#include "ckpt/commands.hpp"
#include "standard_output.hpp"
#include "train/versions.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace gpt {
namespace {

struct Command {
  std::string_view name;
  std::string_view arguments;
  std::string_view purpose;
  ExitCode (*run)(const Arguments&);
};

constexpr Command commands[] = {
    {"list", "RUN", "what is in a run's folder of checkpoints, and which one a start would take", list_run},
    {"inspect", "FILE", "what a checkpoint holds: model, configuration, figures of every parameter",
     inspect_file},
    {"verify", "FILE|RUN...", "read every bit, and name what is damaged", verify_files},
    {"diff", "A B", "how two checkpoints differ", diff_files},
    {"ledger", "RUN", "was each window of the data read once in each epoch?", audit_run},
};

std::string names() {
  std::string text;
  for (const Command& command : commands) text += fmt::format("{}{}", text.empty() ? "" : ", ", command.name);
  return text;
}

std::string overview() {
  std::string text = "gpt_ckpt examines checkpoints of gpt_mpi. It changes nothing.\n\n";
  for (const Command& command : commands)
    text += fmt::format("  gpt_ckpt {:<20} {}\n", fmt::format("{} {}", command.name, command.arguments),
                        command.purpose);
  return text +
         "\ngpt_ckpt COMMAND --help lists the options of a command; gpt_ckpt --version the versions of "
         "libraries.\n";
}

ExitCode run(const Arguments& arguments) {
  validate(!arguments.empty(), "no command: use one of {}; --help explains them", names());
  const std::string& first = arguments.front();
  if (first == "--help" || first == "-h" || first == "help") {
    print("{}", overview());
    return ExitCode::finished;
  }
  if (first == "--version") {
    print("{}", version_text("gpt_ckpt"));
    return ExitCode::finished;
  }
  const auto* const command = std::ranges::find(commands, std::string_view(first), &Command::name);
  validate(command != std::end(commands), "unknown command '{}': use one of {}; --help explains them", first,
           names());
  return command->run({arguments.begin() + 1, arguments.end()});
}

int report_failure(const std::string& message, ExitCode code) {
  gpt::notice(fmt::format("gpt_ckpt: {}", message));
  return static_cast<int>(code);
}

}  // namespace

bool parse(CommandLine& line, const Arguments& arguments) {
  const std::optional<std::string> help = line.parse(arguments);
  if (help) print("{}", *help);
  return !help;
}

std::string checkpoints_of(const std::string& run) {
  std::error_code ignored;
  validate(std::filesystem::is_directory(run, ignored), "'{}' is no folder: name a run folder", run);
  const std::string inner = run + "/checkpoints";
  return std::filesystem::is_directory(inner, ignored) ? inner : run;
}

}  // namespace gpt

int main(int argc, char** argv) {
  using gpt::ExitCode;
  try {
    const ExitCode code = gpt::run({argv + std::min(argc, 1), argv + argc});
    gpt::check_output();
    return static_cast<int>(code);
  } catch (const gpt::Error& error) {
    return gpt::report_failure(error.what(), error.code());
  } catch (const boost::program_options::error& error) {
    return gpt::report_failure(fmt::format("{} (gpt_ckpt COMMAND --help lists the options)", error.what()),
                               ExitCode::usage);
  } catch (const std::exception& error) {
    return gpt::report_failure(error.what(), ExitCode::failed);
  }
}
