#include "fleet/codec.h"

namespace rota::model {

template void encode<fleet::Command>(const fleet::Command&, std::string&);
template void encode<fleet::Event>(const fleet::Event&, std::string&);
template void encode<fleet::Events>(const fleet::Events&, std::string&);
template Result<fleet::Command> decode<fleet::Command>(std::string_view);
template Result<fleet::Event> decode<fleet::Event>(std::string_view);
template Result<fleet::Events> decode<fleet::Events>(std::string_view);

}  // namespace rota::model
