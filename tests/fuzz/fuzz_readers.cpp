#include "base/error.hpp"
#include "command_line.hpp"
#include "fuzz/isolation.hpp"
#include "fuzz/mutation.hpp"
#include "fuzz/subjects.hpp"
#include "option_values.hpp"
#include "support/scratch_folder.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <stdexcept>
#include <string>
#include <vector>

// Changes whole files at random and has the readers read them: they may take them or throw an Error, and
// nothing else. `--seconds 300`, or GPT_FUZZ_SECONDS=300 in the environment, is the long form.
namespace gpt::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t batch = 500;  // cases in one process

struct Options {
  double seconds = 4;
  std::string seed = "1";
  std::string subject = "all";
  std::string keep = (std::filesystem::temp_directory_path() / "gpt-fuzz-cases").string();
  std::string replay;
};

struct Tally {
  uint64_t cases = 0;
  uint64_t accepted = 0;
  uint64_t refused = 0;
  uint64_t failures = 0;
  uint64_t in_hdf5 = 0;
};

/// The file of a case, from which it is found again.
std::string bytes_of_case(const Subject& subject, uint64_t seed, uint64_t number) {
  Draws draws(seed, number);
  return subject.change(subject.seed, draws);
}

CaseEnd run_case(const Subject& subject, const std::string& bytes) {
  test::write_bytes(subject.file, bytes);
  bool accepted = false;
  try {
    accepted = subject.read();
  } catch (const Error&) {
    return CaseEnd::refused;
  }
  if (accepted && subject.must_refuse && bytes != subject.seed)
    throw std::runtime_error("a changed file was taken for a whole one");
  return accepted ? CaseEnd::accepted : CaseEnd::refused;
}

std::string keep_case(const Options& options, const Subject& subject, uint64_t seed, uint64_t number) {
  std::filesystem::create_directories(options.keep);
  const std::string path = fmt::format("{}/{}-{}-{}", options.keep, subject.name, seed, number);
  test::write_bytes(path, bytes_of_case(subject, seed, number));
  return path;
}

Tally run_subject(const Options& options, const Subject& subject, uint64_t seed, double seconds) {
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  Tally tally;
  do {
    const uint64_t first = tally.cases;
    const BatchEnd done = run_batch(
        first,
        [&](uint64_t number) { return number < first + batch && (number == first || Clock::now() < end); },
        [&](uint64_t number) { return run_case(subject, bytes_of_case(subject, seed, number)); });
    tally.cases = done.next;
    tally.accepted += done.accepted;
    tally.refused += done.refused;
    if (done.failure.empty()) continue;
    const bool tolerated = done.in_hdf5 && subject.hdf5_sees_changes;
    ++(tolerated ? tally.in_hdf5 : tally.failures);
    fmt::print("{} case {}: {}{}; kept as {}\n", subject.name, done.next - 1, done.in_hdf5 ? "in HDF5: " : "",
               done.failure, keep_case(options, subject, seed, done.next - 1));
  } while (Clock::now() < end);
  test::write_bytes(subject.file, subject.seed);
  return tally;
}

int replay(const Options& options, const std::vector<Subject>& subjects) {
  const auto subject = std::ranges::find(subjects, options.subject, &Subject::name);
  validate(subject != subjects.end(), "--replay needs --subject: the one that the file is a case of");
  const bool accepted = run_case(*subject, test::bytes_of(options.replay)) == CaseEnd::accepted;
  fmt::print("{}\n", accepted ? "accepted" : "refused");
  return 0;
}

int run(const Arguments& arguments) {
  Options options;
  if (const char* const seconds = std::getenv("GPT_FUZZ_SECONDS")) options.seconds = std::atof(seconds);
  CommandLine line("fuzz_readers: changed files, and what the readers make of them");
  line.group("Options")("seconds", option(options.seconds, "S"), "for all subjects together")(
      "seed", option(options.seed, "N"), "which changes")("subject", option(options.subject, "NAME"),
                                                          "checkpoint, recommitted, manifest, shard or all")(
      "keep", option(options.keep, "FOLDER"), "where cases that fail are kept")(
      "replay", option(options.replay, "FILE"), "read one kept case, in this process");
  if (const auto help = line.parse(arguments)) {
    fmt::print("{}", *help);
    return 0;
  }
  const uint64_t seed = parse_seed(options.seed);
  const test::ScratchFolder folder;
  run_apart([&] { write_seeds(folder.path()); });
  std::vector<Subject> subjects = make_subjects(folder.path());
  if (!options.replay.empty()) return replay(options, subjects);
  if (options.subject != "all")
    std::erase_if(subjects, [&](const Subject& subject) { return subject.name != options.subject; });
  validate(!subjects.empty(), "--subject {}: there is none of that name", options.subject);

  uint64_t failures = 0;
  const double share = options.seconds / static_cast<double>(subjects.size());
  for (const Subject& subject : subjects) {
    const bool takes_its_seed = run_batch(
                                    0, [](uint64_t number) { return number == 0; },
                                    [&](uint64_t) { return run_case(subject, subject.seed); })
                                    .accepted == 1;
    validate(takes_its_seed, ExitCode::failed, "{}: the unchanged file is refused", subject.name);
    const Tally tally = run_subject(options, subject, seed, share);
    failures += tally.failures;
    fmt::print("{:<12} seed {}: {} cases, {} refused, {} accepted, {} failed, {} ended in HDF5\n",
               subject.name, seed, tally.cases, tally.refused, tally.accepted, tally.failures, tally.in_hdf5);
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gpt::fuzz

int main(int argc, char** argv) try {
  return gpt::fuzz::run({argv + std::min(argc, 1), argv + argc});
} catch (const std::exception& error) {
  std::fprintf(stderr, "fuzz_readers: %s\n", error.what());
  return 2;
}
