package server

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/skepmq/skep/broker"
)

func (f *fake) Maintenance() broker.Maintenance { return f.state }

func (f *fake) SetPushMaintenance(on bool) error {
	f.state.Push = on
	return f.err
}

func (f *fake) SetPopMaintenance(on bool) error {
	f.state.Pop = on
	return f.err
}

func TestMaintenanceAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, request, body string
		state               broker.Maintenance
		err                 error
		status              int
		want                string
	}{
		{"M-701 off", "GET /api/v1/system/maintenance", "", broker.Maintenance{Healthy: true}, nil, 200,
			`{"maintenanceMode":false,"popMaintenanceMode":false,"bufferedMessages":0,"bufferHealthy":true,"bufferStats":{"pendingCount":0,"failedCount":0,"dbHealthy":true,"failedFiles":{"count":0,"totalBytes":0,"totalMB":0.0,"failoverCount":0,"qos0Count":0}}}`},
		{"M-701 on", "GET /api/v1/system/maintenance", "", broker.Maintenance{Push: true, Pop: true, Buffered: 7}, nil, 200,
			`{"maintenanceMode":true,"popMaintenanceMode":true,"bufferedMessages":7,"bufferHealthy":false,"bufferStats":{"pendingCount":7,"failedCount":0,"dbHealthy":true,"failedFiles":{"count":0,"totalBytes":0,"totalMB":0.0,"failoverCount":0,"qos0Count":0}}}`},
		{"M-702 on", "POST /api/v1/system/maintenance", `{"enabled":true}`, broker.Maintenance{Healthy: true, Buffered: 2}, nil, 200,
			`{"maintenanceMode":true,"bufferedMessages":2,"bufferHealthy":true,"message":"Maintenance mode ENABLED. All PUSHes routing to file buffer."}`},
		{"M-702 off", "POST /api/v1/system/maintenance", `{"enabled":false}`, broker.Maintenance{Healthy: true}, nil, 200,
			`{"maintenanceMode":false,"bufferedMessages":0,"bufferHealthy":true,"message":"Maintenance mode DISABLED. Background processor will drain buffer to DB."}`},
		{"M-702 nothing said", "POST /api/v1/system/maintenance", `{}`, broker.Maintenance{}, nil, 400, enabledRequired},
		{"M-702 no boolean", "POST /api/v1/system/maintenance", `{"enabled":"true"}`, broker.Maintenance{}, nil, 400, enabledRequired},
		{"M-702 no body", "POST /api/v1/system/maintenance", ``, broker.Maintenance{}, nil, 400, enabledRequired},
		{"R3 a failed store", "POST /api/v1/system/maintenance", `{"enabled":true}`, broker.Maintenance{}, broker.ErrStorageFailed, 503,
			`{"error":"storage has failed; the outcome of the request is unknown","code":"storage_failed"}`},
		{"M-703 is off", "GET /api/v1/system/maintenance/pop", "", broker.Maintenance{}, nil, 200,
			`{"popMaintenanceMode":false,"message":"Pop maintenance mode is OFF. Normal operation."}`},
		{"G-406 is on", "GET /api/v1/system/maintenance/pop", "", broker.Maintenance{Pop: true}, nil, 200,
			`{"popMaintenanceMode":true,"message":"Pop maintenance mode is ON. All POP operations return empty arrays."}`},
		{"M-703 on", "POST /api/v1/system/maintenance/pop", `{"enabled":true}`, broker.Maintenance{}, nil, 200,
			`{"popMaintenanceMode":true,"message":"Pop maintenance mode ENABLED. All POP operations will return empty arrays."}`},
		{"G-406 off", "POST /api/v1/system/maintenance/pop", `{"enabled":false}`, broker.Maintenance{Pop: true}, nil, 200,
			`{"popMaintenanceMode":false,"message":"Pop maintenance mode DISABLED. Normal operation resumed."}`},
		{"G-406 nothing said", "POST /api/v1/system/maintenance/pop", `{"enabled":null}`, broker.Maintenance{}, nil, 400, enabledRequired},
		{"G-129", "GET /api/v1/status/buffers", "", broker.Maintenance{Buffered: 3}, nil, 200,
			`{"pending":3,"failed":0,"dbHealthy":true,"worker":0}`},
		{"G-410", "GET /api/v1/system/shared-state", "", broker.Maintenance{Pop: true}, nil, 200,
			`{"enabled":false,"reason":"single_node_segments_broker","maintenance_mode":false,"pop_maintenance_mode":true}`},
		{"G-417", "GET /internal/api/shared-state/stats", "", broker.Maintenance{Push: true}, nil, 200,
			`{"enabled":false,"reason":"no_peers","maintenance_mode":true,"pop_maintenance_mode":false}`},
		{"G-417 its alias", "GET /internal/api/inter-instance/stats", "", broker.Maintenance{}, nil, 200,
			`{"enabled":false,"reason":"no_peers","maintenance_mode":false,"pop_maintenance_mode":false}`},
		{"G-313 by address", "POST /api/v1/messages/" + testID(1).String() + "/tx/retry", `{}`, broker.Maintenance{}, broker.ErrMaintenance, 503,
			`{"success":false,"result":"maintenance","partitionId":"` + testID(1).String() + `","transactionId":"tx","dlqRowRemoved":false,"error":"maintenance mode is on","message":"The dead letter stays where it is until push maintenance is off"}`},
		{"G-313 by id", "POST /api/v1/dlq/" + testID(1).String() + "/replay", ``, broker.Maintenance{}, broker.ErrMaintenance, 503,
			`{"success":false,"result":"maintenance","dlqId":"` + testID(1).String() + `","dlqRowRemoved":false,"error":"maintenance mode is on","message":"The dead letter stays where it is until push maintenance is off"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			f.state, f.err = tt.state, tt.err
			method, path, _ := strings.Cut(tt.request, " ")
			req, err := http.NewRequest(method, "http://skep"+path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			res, err := startMemory(t, f, Options{}).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			got, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != tt.status || string(got) != tt.want {
				t.Errorf("got %d %s (%v)\nwant %d %s", res.StatusCode, got, err, tt.status, tt.want)
			}
			if retry := res.Header.Get("Retry-After"); (tt.status == 503) != (retry != "") {
				t.Errorf("Retry-After %q with %d", retry, tt.status)
			}
		})
	}
}

// A store that has failed shows.
func TestMaintenanceOfAFailedStore(t *testing.T) {
	f := newFake()
	f.ready = broker.ErrStorageFailed
	c := startMemory(t, f, Options{})
	check(t, c, "GET", "/api/v1/status/buffers", "", 200, `{"pending":0,"failed":0,"dbHealthy":false,"worker":0}`)
	check(t, c, "GET", "/api/v1/system/maintenance", "", 200,
		`{"maintenanceMode":false,"popMaintenanceMode":false,"bufferedMessages":0,"bufferHealthy":false,`+
			`"bufferStats":{"pendingCount":0,"failedCount":0,"dbHealthy":false,"failedFiles":{"count":0,"totalBytes":0,"totalMB":0.0,"failoverCount":0,"qos0Count":0}}}`)
}

// A broker that recovers has no switches to show yet.
func TestSharedStateWhileRecovering(t *testing.T) {
	res, err := startMemory(t, nil, Options{}).Get("http://skep/internal/api/shared-state/stats")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("status %d", res.StatusCode)
	}
}
