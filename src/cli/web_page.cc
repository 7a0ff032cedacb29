#include "cli/web_page.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/os_error.h"
#include "net/stream.h"

namespace rota::cli {

Result<std::unique_ptr<WebPage>> WebPage::open(host::Host& host, ledger::Ledger& ledger, std::int64_t port) {
  std::unique_ptr<WebPage> page(new WebPage());
  std::error_code error;
  std::string folder = (std::filesystem::temp_directory_path(error) / "rota-web-XXXXXX").string();
  if (error || ::mkdtemp(folder.data()) == nullptr) return os_error(errno, "create a folder like '" + folder + "'");
  page->folder_ = folder;
  host::HttpDoorOptions options;
  options.address = "127.0.0.1:" + std::to_string(port);
  options.state = folder;
  ROTA_TRY_ASSIGN(page->door_, host::HttpDoor::open(host, ledger, net::real_network(), std::move(options)));
  std::ifstream file(folder + "/" + std::string(host::kAdminTokenFile));
  if (!std::getline(file, page->token_)) {
    return Error{ErrorCode::kIoError, "the token of the dashboard could not be read from '" + folder + "'"};
  }
  return page;
}

WebPage::~WebPage() {
  door_.reset();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

std::string WebPage::url() const { return "http://" + door_->endpoint().to_string() + "/#token=" + token_; }

}  // namespace rota::cli
