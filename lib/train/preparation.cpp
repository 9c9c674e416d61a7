#include "train/preparation.hpp"

#include "base/hash.hpp"
#include "train/agreement.hpp"
#include "train/comm_plan.hpp"
#include "train/evaluator.hpp"
#include "train/node_checkpoint_choice.hpp"
#include "train/threads.hpp"

#include <filesystem>
#include <map>
#include <utility>

namespace gpt {
namespace {

Dataset open_dataset(const std::string& folder) {
  validate(
      std::filesystem::exists(folder),
      "no dataset in {0}: make one with 'gpt_data pack --input FILE --out {0}' (--tokenizer and --shards as "
      "the run needs them), or without any text with "
      "'gpt_data synth --out {0}'; './run demo' makes the default one",
      folder);
  return Dataset(folder);
}

void resolve_vocabulary(GptConfig& model, const Dataset& dataset) {
  const int64_t vocabulary = dataset.manifest().vocabulary;
  if (model.vocabulary == 0) model.vocabulary = vocabulary;
  validate(model.vocabulary >= vocabulary,
           "--vocab {} is smaller than the {} tokens of dataset {}: use {} or more, or leave it out",
           model.vocabulary, vocabulary, dataset.folder(), vocabulary);
}

std::vector<std::string> changed_options(const std::string& stored, const std::string& now) {
  std::map<std::string, std::string> before;
  for (auto& [name, value] : option_facts(stored)) before[name] = value;
  std::vector<std::string> changes;
  for (const auto& [name, value] : option_facts(now))
    if (before.contains(name) && before[name] != value)
      changes.push_back(fmt::format("{}: {}, was {}", name, value, before[name]));
  return changes;
}

/// Takes the chosen checkpoint's options and position over, and refuses what does not fit it.
void resume(PreparedRun& run, const OptionSource& source) {
  const CheckpointHeader header =
      run.start.memory ? run.start.memory->header : read_checkpoint_header(run.start.file);
  run.options = source.resolve(header.configuration);
  validate_options(run.options);
  run.configuration = source.to_text(run.options);
  run.changes = changed_options(header.configuration, run.configuration);
  run.dataset.emplace(open_dataset(run.options.data));
  resolve_vocabulary(run.options.model, *run.dataset);
  validate_resume(header, source.from_text(header.configuration), run.options, run.dataset->manifest());
  run.comm_choice = header.comm_choice;
  run.state = {.step = header.step,
               .last_update = header.last_update,
               .cursor = header.cursor,
               .skipped = header.skipped,
               .spikes = header.spikes};
}

}  // namespace

StartPoint agree_on_start(const World& world, const TrainOptions& options) {
  std::string text;
  world.everywhere([&] {
    if (world.is_root()) text = to_text(choose_start(options.resume, options.out + "/checkpoints"));
  });
  StartPoint start = start_from_text(world.broadcast(text));
  if (options.resume != "auto" || options.eval_only) return start;
  return with_node_checkpoints(world, options.out, std::move(start));
}

PreparedRun prepare_run(World& world, const OptionSource& source) {
  PreparedRun run;
  world.everywhere([&] {
    run.options = source.resolve("");
    validate_options(run.options);
    check_threads(run.options.threads);
  });
  compare_ranks(world, build_facts());
  Facts facts = option_facts(source.to_text(run.options));
  facts.emplace_back("--resume",
                     run.options.resume);  // these two are asked of one start alone and not in the text
  facts.emplace_back("--eval-only", run.options.eval_only ? "true" : "false");
  compare_ranks(world, facts);
  world.set_layout({run.options.node_layout});

  run.start = agree_on_start(world, run.options);
  world.everywhere([&] {
    if (run.start.file.empty()) {
      run.configuration = source.to_text(run.options);
      run.dataset.emplace(open_dataset(run.options.data));
      resolve_vocabulary(run.options.model, *run.dataset);
    } else {
      resume(run, source);
    }
    validate_sums_between(run.options, world.nodes());
    if (run.options.eval_only || run.options.eval_every > 0)
      validate_evaluation(*run.dataset, run.options.model.context);
    if (!run.options.eval_only)
      run.plan = make_plan(run.options, *run.dataset, run.state, world.rank(), world.size());
  });
  compare_ranks(world, {{"dataset", to_hex(run.dataset->manifest().fingerprint())}});
  return run;
}

}  // namespace gpt
