package server

import (
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

// The texts are compared by tools and tests of operators: a letter changed breaks them.
const (
	pushMaintenanceOn  = "Maintenance mode ENABLED. All PUSHes routing to file buffer."
	pushMaintenanceOff = "Maintenance mode DISABLED. Background processor will drain buffer to DB."
	popMaintenanceOn   = "Pop maintenance mode ENABLED. All POP operations will return empty arrays."
	popMaintenanceOff  = "Pop maintenance mode DISABLED. Normal operation resumed."
	popMaintenanceIsOn = "Pop maintenance mode is ON. All POP operations return empty arrays."
	popMaintenanceIs   = "Pop maintenance mode is OFF. Normal operation."

	enabledRequired = `{"error":"enabled (boolean) is required"}`
)

// maintenance answers GET /api/v1/system/maintenance. No spooled message ever fails, and
// the spool is part of the store, so the numbers of failures are constant.
func (r *request) maintenance() {
	r.abandonBody()
	m := r.broker.Maintenance()
	b := append(r.answer(), `{"maintenanceMode":`...)
	b = strconv.AppendBool(b, m.Push)
	b = append(b, `,"popMaintenanceMode":`...)
	b = strconv.AppendBool(b, m.Pop)
	b = appendBuffered(append(b, ','), &m)
	b = append(b, `,"bufferStats":{"pendingCount":`...)
	b = strconv.AppendInt(b, m.Buffered, 10)
	b = append(b, `,"failedCount":0,"dbHealthy":`...)
	b = strconv.AppendBool(b, r.broker.Ready() == nil)
	b = append(b, `,"failedFiles":{"count":0,"totalBytes":0,"totalMB":0.0,"failoverCount":0,"qos0Count":0}}}`...)
	r.send(fasthttp.StatusOK, b)
}

func appendBuffered(b []byte, m *broker.Maintenance) []byte {
	b = append(b, `"bufferedMessages":`...)
	b = strconv.AppendInt(b, m.Buffered, 10)
	b = append(b, `,"bufferHealthy":`...)
	return strconv.AppendBool(b, m.Healthy)
}

// setMaintenance answers POST /api/v1/system/maintenance.
func (r *request) setMaintenance() {
	on, ok := r.readSwitch()
	if !ok {
		return
	}
	if err := r.broker.SetPushMaintenance(on); err != nil {
		r.fail(err)
		return
	}
	m := r.broker.Maintenance()
	b := append(r.answer(), `{"maintenanceMode":`...)
	b = strconv.AppendBool(b, on)
	b = appendBuffered(append(b, ','), &m)
	r.sendSwitched(b, on, pushMaintenanceOn, pushMaintenanceOff)
}

// popMaintenance answers GET /api/v1/system/maintenance/pop.
func (r *request) popMaintenance() {
	r.abandonBody()
	on := r.broker.Maintenance().Pop
	b := append(r.answer(), `{"popMaintenanceMode":`...)
	r.sendSwitched(strconv.AppendBool(b, on), on, popMaintenanceIsOn, popMaintenanceIs)
}

// setPopMaintenance answers POST /api/v1/system/maintenance/pop.
func (r *request) setPopMaintenance() {
	on, ok := r.readSwitch()
	if !ok {
		return
	}
	if err := r.broker.SetPopMaintenance(on); err != nil {
		r.fail(err)
		return
	}
	b := append(r.answer(), `{"popMaintenanceMode":`...)
	r.sendSwitched(strconv.AppendBool(b, on), on, popMaintenanceOn, popMaintenanceOff)
}

// readSwitch reads which way a switch is to be turned, or answers 400.
func (r *request) readSwitch() (on, ok bool) {
	body, ok := r.readBody()
	if !ok {
		return false, false
	}
	if on, ok = codec.DecodeSwitch(body); !ok {
		r.sendText(fasthttp.StatusBadRequest, enabledRequired)
	}
	return on, ok
}

// sendSwitched ends the answer b with the message for the state.
func (r *request) sendSwitched(b []byte, on bool, ifOn, ifOff string) {
	text := ifOff
	if on {
		text = ifOn
	}
	b = append(b, `,"message":"`...)
	b = append(b, text...)
	r.send(fasthttp.StatusOK, append(b, `"}`...))
}

// buffers answers GET /api/v1/status/buffers.
func (r *request) buffers() {
	r.abandonBody()
	m := r.broker.Maintenance()
	b := append(r.answer(), `{"pending":`...)
	b = strconv.AppendInt(b, m.Buffered, 10)
	b = append(b, `,"failed":0,"dbHealthy":`...)
	b = strconv.AppendBool(b, r.broker.Ready() == nil)
	r.send(fasthttp.StatusOK, append(b, `,"worker":0}`...))
}

// sharedState answers GET /api/v1/system/shared-state: one node shares with nobody.
func (r *request) sharedState() { r.unshared("single_node_segments_broker") }

// sharedStateStats answers GET /internal/api/shared-state/stats and its older name.
func (r *request) sharedStateStats() { r.unshared("no_peers") }

func (r *request) unshared(reason string) {
	r.abandonBody()
	var m broker.Maintenance
	if r.broker != nil {
		m = r.broker.Maintenance()
	}
	b := append(r.answer(), `{"enabled":false,"reason":"`...)
	b = append(b, reason...)
	b = append(b, `","maintenance_mode":`...)
	b = strconv.AppendBool(b, m.Push)
	b = append(b, `,"pop_maintenance_mode":`...)
	b = strconv.AppendBool(b, m.Pop)
	r.send(fasthttp.StatusOK, append(b, '}'))
}

// replayRefused ends the answer to a replay under push maintenance. The address of the
// dead letter is in b already.
func (r *request) replayRefused(b []byte) {
	b = append(b, `,"dlqRowRemoved":false,"error":"maintenance mode is on","message":"The dead letter stays where it is until push maintenance is off"}`...)
	r.send(fasthttp.StatusServiceUnavailable, b)
}
