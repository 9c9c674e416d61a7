#include "train/checkpoint_evaluation.hpp"

#include "train/checkpoint.hpp"
#include "train/device_state.hpp"
#include "train/evaluator.hpp"
#include "train/weights.hpp"

namespace gpt {
EvaluationResult evaluate_checkpoint(const World& world, Device& device, Comm& comm, Dataset& dataset,
                                     const TrainOptions& options, const std::string& file) {
  const Layout layout(options.model);
  const std::unique_ptr<Queue> queue = device.make_queue();
  Weights weights(layout, device, options.matrix_type());
  std::optional<Evaluator> evaluator;
  world.everywhere([&] {
    evaluator.emplace(dataset, options.model.context, options.eval_windows, options.micro_batch, device,
                      world.rank(), world.size());
    load_device_state(file, layout, {weights.state()}, *queue);
  });
  weights.round(*queue);
  Gpt model(options.model, device, evaluator->micro_batch(), weights.with({}));
  world.watchdog().enter(Phase::evaluation, 0);
  SectionListener nobody;
  return {.loss = evaluator->mean_loss(model, nobody, comm, *queue, world.watchdog()),
          .windows = evaluator->windows()};
}

}  // namespace gpt
