#include "train/checkpoint_evaluation.hpp"

#include "train/checkpoint.hpp"
#include "train/evaluator.hpp"
#include "train/read_weights.hpp"

namespace gpt {
EvaluationResult evaluate_checkpoint(const World& world, Device& device, Comm& comm, Dataset& dataset,
                                     const TrainOptions& options, const std::string& file,
                                     int64_t last_update) {
  const Layout layout(options.model);
  WeightRounding rounding = options.weight_rounding();
  rounding.step = last_update;
  const std::unique_ptr<Queue> queue = device.make_queue();
  std::optional<ReadWeights> weights;
  std::optional<Evaluator> evaluator;
  world.everywhere([&] {
    evaluator.emplace(dataset, options.model.context, options.eval_windows, options.micro_batch, device,
                      world.rank(), world.size());
    weights.emplace(layout, options.matrix_type(), device);
    load_weights(file, layout, *weights, rounding, device, *queue);
  });
  Gpt model(options.model, device, evaluator->micro_batch(), weights->with({}));
  world.watchdog().enter(Phase::evaluation, 0);
  SectionListener nobody;
  return {.loss = evaluator->mean_loss(model, nobody, comm, *queue, world.watchdog()),
          .windows = evaluator->windows()};
}

}  // namespace gpt
