// The encoding (model/codec.h) of commands and events. Its functions are instantiated in codec.cc, because they take
// long to compile.
#pragma once

#include <string>
#include <string_view>

#include "fleet/command.h"
#include "fleet/event.h"
#include "fleet/names.h"
#include "model/codec.h"

namespace rota::model {

extern template void encode<fleet::Command>(const fleet::Command&, std::string&);
extern template void encode<fleet::Event>(const fleet::Event&, std::string&);
extern template void encode<fleet::Events>(const fleet::Events&, std::string&);
extern template Result<fleet::Command> decode<fleet::Command>(std::string_view);
extern template Result<fleet::Event> decode<fleet::Event>(std::string_view);
extern template Result<fleet::Events> decode<fleet::Events>(std::string_view);

}  // namespace rota::model
