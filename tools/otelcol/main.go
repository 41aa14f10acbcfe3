// The OpenTelemetry collector of the tests: the receiver for OTLP and the exporter to a file, and between them a
// processor that fails when a file tells it to. `./dev otelcol` builds it.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"strings"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processorhelper"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const version = "0.165.0"

// Settings of the processor.
type faultConfig struct {
	// File with the name of a fault, and for log records the beginning of the bodies that it is for.
	File string `mapstructure:"file"`
}

// read gives the fault, as a component behind the receiver reports it, and the bodies that it is for.
func (c *faultConfig) read() (error, string) {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return nil, ""
	}
	name, body, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	switch name {
	case "":
		return nil, ""
	case "retry":
		return errors.New("the backend does not answer"), body
	case "permanent":
		return consumererror.NewPermanent(errors.New("the backend refuses this data")), body
	case "invalid":
		return status.Error(codes.InvalidArgument, "this data is invalid"), body
	case "busy":
		info := &errdetails.RetryInfo{RetryDelay: durationpb.New(2 * time.Second)}
		busy, err := status.New(codes.ResourceExhausted, "too much data").WithDetails(info)
		if err != nil {
			return err, body
		}
		return busy.Err(), body
	default:
		return errors.New("no such fault: " + name), ""
	}
}

func (c *faultConfig) ofLogs(_ context.Context, data plog.Logs) (plog.Logs, error) {
	fault, body := c.read()
	for _, resource := range data.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				if strings.HasPrefix(record.Body().Str(), body) {
					return data, fault
				}
			}
		}
	}
	return data, nil
}

// Spans and metrics have no body: a fault for some bodies is not for them.
func (c *faultConfig) ofOthers() error {
	if fault, body := c.read(); body == "" {
		return fault
	}
	return nil
}

func faultProcessor() processor.Factory {
	const level = component.StabilityLevelStable
	logs := func(ctx context.Context, set processor.Settings, config component.Config, next consumer.Logs) (processor.Logs, error) {
		return processorhelper.NewLogs(ctx, set, config, next, config.(*faultConfig).ofLogs)
	}
	traces := func(ctx context.Context, set processor.Settings, config component.Config, next consumer.Traces) (processor.Traces, error) {
		pass := func(_ context.Context, data ptrace.Traces) (ptrace.Traces, error) {
			return data, config.(*faultConfig).ofOthers()
		}
		return processorhelper.NewTraces(ctx, set, config, next, pass)
	}
	metrics := func(ctx context.Context, set processor.Settings, config component.Config, next consumer.Metrics) (processor.Metrics, error) {
		pass := func(_ context.Context, data pmetric.Metrics) (pmetric.Metrics, error) {
			return data, config.(*faultConfig).ofOthers()
		}
		return processorhelper.NewMetrics(ctx, set, config, next, pass)
	}
	return processor.NewFactory(component.MustNewType("fault"), func() component.Config { return &faultConfig{} },
		processor.WithLogs(logs, level), processor.WithTraces(traces, level), processor.WithMetrics(metrics, level))
}

func factories() (otelcol.Factories, error) {
	all := otelcol.Factories{Telemetry: otelconftelemetry.NewFactory()}
	var err error
	if all.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
		return all, err
	}
	if all.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](fileexporter.NewFactory()); err != nil {
		return all, err
	}
	all.Processors, err = otelcol.MakeFactoryMap[processor.Factory](faultProcessor())
	return all, err
}

func main() {
	providers := []confmap.ProviderFactory{fileprovider.NewFactory()}
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "otelcol", Description: "OpenTelemetry collector", Version: version},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{
			ResolverSettings: confmap.ResolverSettings{DefaultScheme: "file", ProviderFactories: providers},
		},
	})
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}
