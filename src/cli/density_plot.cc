#include "cli/density_plot.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "cli/format.h"
#include "model/json.h"

namespace rota::cli {

namespace {

constexpr double kWidth = 960;
constexpr double kHeight = 360;
constexpr double kLeft = 60;
constexpr double kRight = 60;
constexpr double kTop = 40;
constexpr double kBottom = 50;
constexpr int kTimeLabels = 5;

Result<std::int64_t> integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return Error{ErrorCode::kParseError,
                 "a density file has numbers without fractions; found '" + std::string(text) + "'"};
  }
  return value;
}

Result<DensityData::Points> points_of(std::string_view object, std::string_view name) {
  const std::string_view list = model::json_member(object, name);
  const Error wrong{ErrorCode::kParseError, "'" + std::string(name) + "' must be a list of pairs [start, number]"};
  if (list.data() == nullptr || model::json_kind(list) != model::JsonKind::kArray) return wrong;
  DensityData::Points points;
  for (const std::string_view element : model::json_elements(list)) {
    if (model::json_kind(element) != model::JsonKind::kArray) return wrong;
    const std::vector<std::string_view> pair = model::json_elements(element);
    if (pair.size() != 2) return wrong;
    ROTA_TRY_ASSIGN(const std::int64_t start, integer(pair[0]));
    ROTA_TRY_ASSIGN(const std::int64_t number, integer(pair[1]));
    if (number < 0 || (!points.empty() && start <= points.back().first)) {
      return Error{ErrorCode::kParseError,
                   "'" + std::string(name) + "' must have rising times and no negative numbers"};
    }
    points.emplace_back(start, number);
  }
  return points;
}

std::int64_t most_of(const DensityData::Points& points) {
  std::int64_t most = 1;
  for (const auto& [start, number] : points) most = std::max(most, number);
  return most;
}

// A number with one digit after the point: smaller differences cannot be seen.
std::string coordinate(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string label(double x, double y, std::string_view anchor, std::string_view color, const std::string& text) {
  return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" text-anchor=\"" + std::string(anchor) +
         "\" fill=\"" + std::string(color) + "\">" + text + "</text>\n";
}

constexpr std::string_view kTasks = "#4a78c2";
constexpr std::string_view kWorkers = "#c2554a";
constexpr std::string_view kInk = "#444444";

}  // namespace

Result<DensityData> parse_density(std::string_view json) {
  ROTA_TRY(model::json_validate(json));
  if (model::json_kind(json) != model::JsonKind::kObject) return Error{ErrorCode::kParseError, "not a JSON object"};
  DensityData data;
  const std::string_view bucket = model::json_member(json, "bucket_sec");
  ROTA_TRY_ASSIGN(data.bucket_sec, integer(bucket.data() == nullptr ? "" : bucket));
  if (data.bucket_sec < 1) return Error{ErrorCode::kParseError, "'bucket_sec' must be at least 1"};
  ROTA_TRY_ASSIGN(data.submissions, points_of(json, "submissions"));
  ROTA_TRY_ASSIGN(data.active_workers, points_of(json, "active_workers"));
  return data;
}

std::string density_svg(const DensityData& data) {
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"960\" height=\"360\" viewBox=\"0 0 960 360\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"960\" height=\"360\" fill=\"white\"/>\n";
  if (data.submissions.empty() && data.active_workers.empty()) {
    return svg + label(kWidth / 2, kHeight / 2, "middle", kInk, "no submissions and no workers yet") + "</svg>\n";
  }
  std::int64_t from = INT64_MAX;
  std::int64_t to = INT64_MIN;
  for (const DensityData::Points* points : {&data.submissions, &data.active_workers}) {
    if (points->empty()) continue;
    from = std::min(from, points->front().first);
    to = std::max(to, points->back().first + data.bucket_sec);
  }
  const double bottom = kHeight - kBottom;
  const double scale = (kWidth - kLeft - kRight) / static_cast<double>(to - from);
  const auto x = [&](std::int64_t time) { return kLeft + static_cast<double>(time - from) * scale; };
  const std::int64_t most_tasks = most_of(data.submissions);
  const std::int64_t most_workers = most_of(data.active_workers);
  const auto height = [&](std::int64_t number, std::int64_t most) {
    return static_cast<double>(number) * (bottom - kTop) / static_cast<double>(most);
  };

  for (const auto& [start, number] : data.submissions) {
    const double tall = height(number, most_tasks);
    svg += "<rect x=\"" + coordinate(x(start)) + "\" y=\"" + coordinate(bottom - tall) + "\" width=\"" +
           coordinate(std::max(x(start + data.bucket_sec) - x(start), 0.5)) + "\" height=\"" + coordinate(tall) +
           "\" fill=\"" + std::string(kTasks) + "\"/>\n";
  }
  std::string line;
  for (const auto& [start, number] : data.active_workers) {
    // Horizontal to the bucket, then up or down.
    if (!line.empty()) line += "H" + coordinate(x(start));
    line += (line.empty() ? "M" + coordinate(x(start)) + " " : "V") + coordinate(bottom - height(number, most_workers));
  }
  if (!line.empty()) {
    svg += "<path d=\"" + line + "H" + coordinate(x(to)) + "\" fill=\"none\" stroke=\"" + std::string(kWorkers) +
           "\" stroke-width=\"2\"/>\n";
  }
  svg += "<path d=\"M" + coordinate(kLeft) + " " + coordinate(kTop) + "V" + coordinate(bottom) + "H" +
         coordinate(kWidth - kRight) + "V" + coordinate(kTop) + "\" fill=\"none\" stroke=\"" + std::string(kInk) +
         "\"/>\n";
  svg += label(kLeft, 24, "start", kTasks, "tasks submitted per " + std::to_string(data.bucket_sec) + " s");
  svg += label(kWidth - kRight, 24, "end", kWorkers, "active workers");
  svg += label(kLeft - 6, kTop + 4, "end", kTasks, std::to_string(most_tasks)) +
         label(kLeft - 6, bottom, "end", kTasks, "0");
  svg += label(kWidth - kRight + 6, kTop + 4, "start", kWorkers, std::to_string(most_workers)) +
         label(kWidth - kRight + 6, bottom, "start", kWorkers, "0");
  for (int i = 0; i < kTimeLabels; ++i) {
    const std::int64_t time = from + (to - from) * i / (kTimeLabels - 1);
    const std::string_view anchor = i == 0 ? "start" : i == kTimeLabels - 1 ? "end" : "middle";
    svg += label(x(time), bottom + 18, anchor, kInk, utc_date_time(time * 1'000'000'000));
  }
  return svg + "</svg>\n";
}

}  // namespace rota::cli
