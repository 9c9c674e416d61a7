#include "train/step_model.hpp"

#include "base/contracts.hpp"
#include "device/dtype.hpp"

#include <algorithm>

namespace gpt {

std::vector<ReadyGradients> ready_gradients(const Layout& layout, const GptConfig& config, double compute) {
  // Multiplications a token, forward: each element of a matrix one, and each position half a context of
  // scores and of weighted values (causal).
  const auto width = static_cast<double>(config.width);
  const double block = 12.0 * width * width + width * static_cast<double>(config.context);
  const double head = static_cast<double>(config.padded_vocabulary()) * width;
  const auto layers = static_cast<double>(config.layers);
  const double unit = compute / (3.0 * (layers * block + head));

  double now = unit * (layers * block + 3.0 * head);
  std::vector<ReadyGradients> sections;
  const auto add = [&](int64_t section) {
    sections.push_back({layout.sections()[static_cast<size_t>(section)].range, now});
  };
  add(layout.norm_section());
  for (int64_t layer = config.layers - 1; layer >= 0; --layer) {
    now += unit * 2.0 * block;
    add(layout.block_section(layer));
  }
  add(layout.embedding_section());
  return sections;
}

std::vector<ReadyGradients> ready_gradients(int64_t elements, int64_t layers, double compute) {
  expects(layers >= 1);
  std::vector<ReadyGradients> sections;
  for (int64_t layer = layers - 1; layer >= 0; --layer) {
    const double done = static_cast<double>(layers - layer) / static_cast<double>(layers);
    sections.push_back({part_of(elements, layers, layer), compute * (1.0 + 2.0 * done) / 3.0});
  }
  return sections;
}

std::vector<Bucket> buckets_of(std::span<const ReadyGradients> sections, double bucket_bytes) {
  std::vector<Bucket> buckets;
  int64_t begin = -1;  // of the last bucket
  for (const ReadyGradients& section : sections) {
    const double bytes = static_cast<double>(section.elements.size()) * size_of(DType::f32);
    if (section.elements.end == begin && buckets.back().bytes < bucket_bytes)
      buckets.back() = {section.ready, buckets.back().bytes + bytes};
    else
      buckets.push_back({section.ready, bytes});
    begin = section.elements.begin;
  }
  return buckets;
}

double pipeline_end(std::span<const Message> messages) {
  double end = 0.0;
  for (const Message& message : messages) end = std::max(end, message.ready) + message.seconds;
  return end;
}

StepPrediction predict_step(const Cluster& cluster, const CommPlan& plan, const StepShape& shape) {
  std::vector<Message> messages;
  StepPrediction prediction;
  if (cluster.ranks() > 1)
    for (const Bucket& bucket : buckets_of(shape.gradients, shape.bucket_bytes)) {
      messages.push_back({bucket.ready, all_reduce_seconds(cluster, plan, bucket.bytes)});
      prediction.communication += messages.back().seconds;
    }
  const double alone = shape.compute + shape.optimizer;
  // What the communication thread takes from the computing one while both work.
  const double overlap = std::min(prediction.communication, shape.compute);
  const double backward_end = shape.compute + shape.thread_share * overlap;
  prediction.step = std::max(backward_end, pipeline_end(messages)) + shape.optimizer;
  prediction.exposed = prediction.step - alone;
  prediction.efficiency = alone / prediction.step;
  return prediction;
}

}  // namespace gpt
