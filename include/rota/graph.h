// Includes the whole graph API: dependencies between tasks, their life cycle, and the order in which ready tasks run.
#pragma once

#include "rota/graph/dag.h"
#include "rota/graph/names.h"
#include "rota/graph/ready_order.h"
#include "rota/graph/resources.h"
#include "rota/graph/roster.h"
#include "rota/graph/task.h"
