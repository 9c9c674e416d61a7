#include "h5/h5.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"
#include "support/small_checkpoint.hpp"
#include "train/checkpoint_difference.hpp"
#include "train/checkpoint_format.hpp"
#include "train/checkpoint_survey.hpp"
#include "train/checkpoint_verify.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <filesystem>
#include <limits>
#include <utility>

namespace gpt {
namespace {

namespace fs = std::filesystem;
using test::bytes_of;
using test::says;
using test::ScratchFolder;
using test::SmallState;
using test::write_bytes;

constexpr GptConfig tiny{.layers = 1, .heads = 1, .width = 8, .context = 4, .vocabulary = 256};
// Two blocks of state.
constexpr GptConfig larger{.layers = 6, .heads = 2, .width = 128, .context = 33, .vocabulary = 256};

void flip(const std::string& file, int64_t byte) {
  std::string bytes = bytes_of(file);
  bytes[static_cast<size_t>(byte)] ^= 1;
  write_bytes(file, bytes);
}

const TensorDifference& find(const CheckpointDifference& difference, const std::string& state,
                             const std::string& parameter) {
  const auto found = std::ranges::find_if(difference.tensors, [&](const TensorDifference& tensor) {
    return tensor.state == state && tensor.parameter == parameter;
  });
  REQUIRE(found != difference.tensors.end());
  return *found;
}

TEST_CASE("verification names every damaged block and the parameters in it") {
  const ScratchFolder folder;
  SmallState state(larger);
  const std::string file = state.save(folder.path(), state.header(5));
  const CheckpointExamination whole = examine_checkpoint(file);
  CHECK(whole.damage.empty());
  CHECK(whole.step == 5);
  CHECK(whole.blocks == 6);
  CHECK(whole.bytes == static_cast<int64_t>(fs::file_size(file)));

  const int64_t params = H5File::open(file).open_dataset("state/params").file_offset();
  const int64_t v = H5File::open(file).open_dataset("state/v").file_offset();
  flip(file, params + 4 * state.layout.find("h.0.attn.c_attn.weight")->offset);
  flip(file, v + 4 * state.layout.find("ln_f.bias")->offset + 3);
  const CheckpointExamination found = examine_checkpoint(file);
  CHECK(found.blocks == 6);
  REQUIRE(found.damage.size() == 2);
  CHECK(found.damage[0].state == "params");
  CHECK(found.damage[0].block == 0);
  CHECK(std::ranges::count(found.damage[0].parameters, "h.0.attn.c_attn.weight") == 1);
  CHECK(std::ranges::count(found.damage[0].parameters, "ln_f.bias") == 0);
  CHECK(found.damage[1].state == "v");
  CHECK(found.damage[1].block == 1);
  CHECK(std::ranges::count(found.damage[1].parameters, "ln_f.bias") == 1);
  says(found.damage[1].what, file);
  says(found.damage[1].what, "block 1 of 2");
}

TEST_CASE("verification goes no further than damage outside the state") {
  const ScratchFolder folder;
  SmallState state(tiny);
  const std::string file = state.save(folder.path(), state.header(5));
  flip(file, 1000);
  const CheckpointExamination found = examine_checkpoint(file);
  REQUIRE(found.damage.size() == 1);
  CHECK(found.damage[0].state.empty());
  CHECK(found.blocks == 0);
  says(found.damage[0].what, file);
  says(found.damage[0].what, "bytes outside the state changed");
  says(examine_checkpoint(folder / "none").damage.at(0).what, "No such file");
  says(examine_checkpoint(folder.path()).damage.at(0).what, "not a regular file");
}

TEST_CASE("a survey tells what every file of a folder is and which one a start takes") {
  const ScratchFolder folder;
  SmallState state(tiny);
  for (const auto& [step, branch] : {std::pair<int64_t, int64_t>{10, 0}, {20, 0}, {15, 1}, {18, 1}})
    state.save(folder.path(), state.header(step, branch));
  flip(folder / "step-00000018.h5", 1000);
  write_bytes(folder / "step-00000030.h5", "");
  write_bytes(folder / "step-00000040.h5", bytes_of(folder / "step-00000010.h5").substr(0, 5000));
  write_bytes(folder / "step-00000050.h5", std::string(9000, 'x'));
  write_bytes(folder / "step-00000060.h5.partial", "begun");
  fs::copy_file(folder / "step-00000020.h5", folder / "step-00000020.h5.set-aside-1");
  write_bytes(folder / "notes.txt", "mine");

  const CheckpointSurvey survey = survey_checkpoints(folder.path());
  CHECK(survey.chosen == "step-00000015.h5");
  const std::vector<std::pair<std::string, CheckpointKind>> expected{
      {"step-00000015.h5", CheckpointKind::valid},
      {"step-00000020.h5", CheckpointKind::valid},
      {"step-00000010.h5", CheckpointKind::valid},
      {"notes.txt", CheckpointKind::foreign},
      {"step-00000018.h5", CheckpointKind::broken},
      {"step-00000020.h5.set-aside-1", CheckpointKind::set_aside},
      {"step-00000030.h5", CheckpointKind::broken},
      {"step-00000040.h5", CheckpointKind::broken},
      {"step-00000050.h5", CheckpointKind::foreign},
      {"step-00000060.h5.partial", CheckpointKind::partial}};
  REQUIRE(survey.files.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(expected[i].first);
    CHECK(survey.files[i].name == expected[i].first);
    CHECK(survey.files[i].kind == expected[i].second);
    CHECK(survey.files[i].why.empty() == (expected[i].second == CheckpointKind::valid));
  }
  CHECK(survey.files[0].record->branch == 1);
  CHECK(survey.files[5].record->step == 20);
  CHECK(survey.files[0].bytes == static_cast<int64_t>(fs::file_size(folder / "step-00000015.h5")));
  CHECK(survey.files[0].written > 0);
  CHECK(survey_checkpoints(folder / "none").files.empty());
}

TEST_CASE("equal checkpoints do not differ, whatever their folders") {
  const ScratchFolder folder;
  SmallState state(larger);
  const std::string a = state.save(folder / "a", state.header(5));
  const std::string b = state.save(folder / "b", state.header(5));
  const CheckpointDifference difference = compare_checkpoints(a, b);
  CHECK(difference.same());
  CHECK(find(difference, "m", "wte.weight").elements == larger.vocabulary * larger.width);
  int64_t elements = 0;
  for (const TensorDifference& tensor : difference.tensors) elements += tensor.elements;
  CHECK(elements == 3 * state.layout.size());
}

TEST_CASE("differences are those of the numbers, by parameter and tensor") {
  const ScratchFolder folder;
  SmallState state(larger);
  const std::string a = state.save(folder / "a", state.header(5));
  CheckpointHeader header = state.header(6);
  header.configuration = "lr = 0.002\nsteps = 100\nwarmup = 3\n";
  const std::string last = "h.5.mlp.c_proj.weight";
  state.at(state.params, last, 0) = 8.0F;
  state.at(state.params, last, 9) = std::numeric_limits<float>::quiet_NaN();
  const float before = 0.25F * static_cast<float>(state.layout.find(last)->offset % 1021 - 510);
  state.at(state.v, "ln_f.bias", 1) += 0.5F;
  state.m[static_cast<size_t>(state.layout.padding().front().begin)] = 1.0F;
  const std::string b = state.save(folder / "b", header);

  const CheckpointDifference found = compare_checkpoints(a, b);
  CHECK_FALSE(found.same());
  CHECK_FALSE(found.same_state());
  CHECK(std::ranges::count_if(found.tensors, [](const auto& tensor) { return !tensor.is_equal(); }) == 3);
  const TensorDifference& weight = find(found, "params", last);
  CHECK(weight.different == 2);
  CHECK(weight.not_finite == 1);
  CHECK(weight.absolute == doctest::Approx(std::abs(8.0 - before)));
  CHECK(weight.relative == doctest::Approx(std::abs(8.0 - before) / std::max(8.0F, std::abs(before))));
  CHECK(find(found, "v", "ln_f.bias").absolute == 0.5);
  CHECK(find(found, "m", "padding").absolute == 1.0);
  CHECK(find(found, "m", "padding").relative == 1.0);

  const auto fields = [](const std::vector<FieldDifference>& differences) {
    std::vector<std::string> names;
    for (const FieldDifference& field : differences) names.push_back(field.field + ":" + field.first);
    return names;
  };
  CHECK(fields(found.header) == std::vector<std::string>{"step:5", "last_update:5", "cursor:15"});
  CHECK(fields(found.configuration) == std::vector<std::string>{"lr:0.001", "warmup:—"});
}

TEST_CASE("models of different shapes are compared by the names that they share") {
  const ScratchFolder folder;
  SmallState state(tiny);
  GptConfig deeper = tiny;
  deeper.layers = 2;
  deeper.context = 6;
  SmallState other(deeper);
  for (const Parameter& parameter : state.layout.all())
    for (int64_t i = 0; i < parameter.size(); ++i)
      if (other.layout.find(parameter.name)->size() > i)
        other.at(other.params, parameter.name, i) = state.at(state.params, parameter.name, i);
  const CheckpointDifference found = compare_checkpoints(state.save(folder / "a", state.header(5)),
                                                         other.save(folder / "b", other.header(5)));
  CHECK(find(found, "params", "h.0.attn.c_attn.weight").is_equal());
  CHECK(find(found, "params", "ln_f.weight").is_equal());
  says(find(found, "params", "wpe.weight").incomparable, "(4, 8) in the first, (6, 8) in the second");
  says(find(found, "params", "h.1.ln_1.weight").incomparable, "only the second has it");
  CHECK_FALSE(found.same());
}

TEST_CASE("a damaged file is no other one's equal") {
  const ScratchFolder folder;
  SmallState state(tiny);
  const std::string a = state.save(folder / "a", state.header(5));
  const std::string b = state.save(folder / "b", state.header(5));
  flip(b, H5File::open(b).open_dataset("state/m").file_offset() + 7);
  says(test::failure(ExitCode::damaged, [&] { compare_checkpoints(a, b); }), "block 0 of 1 is damaged");
}

TEST_CASE("configurations are compared by name, whatever their order and blanks") {
  CHECK(configuration_differences("a = 1\nb=2\n", "b = 2\na  =  1").empty());
  const auto found = configuration_differences("a = 1\nstray\n= 3\n", "a = x = y\n");
  REQUIRE(found.size() == 2);
  CHECK(found[0].field == "a");
  CHECK(found[0].second == "x = y");
  CHECK(found[1].field == "stray");
}

}  // namespace
}  // namespace gpt
